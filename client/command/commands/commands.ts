import type { RegisterCommand } from '../run.ts'
import { registerApprove } from './approve.ts'
import { registerBalance } from './balance.ts'
import { registerChat } from './chat.ts'
import { registerDoctor } from './doctor.ts'
import { registerImage } from './image.ts'
import { registerLimits } from './limits.ts'
import { registerMcp } from './mcp.ts'
import { registerQuote } from './quote.ts'
import { registerReceipts } from './receipts.ts'
import { registerSay } from './say.ts'
import { registerSpend } from './spend.ts'
import { registerVerify } from './verify.ts'

/** The commands next to `transcribe` and `completion`, in the order of the help. */
export const COMMANDS: readonly RegisterCommand[] = [
  registerQuote,
  registerChat,
  registerImage,
  registerSay,
  registerBalance,
  registerApprove,
  registerReceipts,
  registerSpend,
  registerVerify,
  registerDoctor,
  registerMcp,
  registerLimits,
]
