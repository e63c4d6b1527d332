import type { Tool } from '../tool.ts'
import { chatTool } from './chat.ts'
import { generateImageTool } from './generate-image.ts'
import { quoteTool } from './quote.ts'
import { receiptsTool } from './receipts.ts'
import { speakTool } from './speak.ts'
import { spendTool } from './spend.ts'
import { transcribeTool } from './transcribe.ts'
import { verifyReceiptTool } from './verify-receipt.ts'
import { walletTool } from './wallet.ts'

/** All tools, in the order in which they are listed. */
export const TOOLS: readonly Tool[] = [
  quoteTool,
  chatTool,
  generateImageTool,
  speakTool,
  transcribeTool,
  walletTool,
  receiptsTool,
  spendTool,
  verifyReceiptTool,
]
