import { dirname } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import type { BudgetAmounts } from '../budget/limits.ts'
import { Confirmations } from './confirm/confirmations.ts'
import { openFolders } from './folders/open-folders.ts'
import { openLimits } from './limits/open-limits.ts'
import { serve } from './serve.ts'
import { createServer } from './server.ts'
import { openSession, type SessionSettings } from './session.ts'
import { TOOLS } from './tools/tools.ts'

export interface ServerOptions extends SessionSettings {
  readonly version: string
  /** Folders that tools may read and write. */
  readonly folders: readonly string[]
  readonly allowsPrivateAddresses: boolean
  /** Budgets of the command line, which hold where they are lower than the limits. */
  readonly budgets: BudgetAmounts
  readonly stdin: Readable
  readonly stdout: Writable
  /** Ends the server. */
  readonly signal: AbortSignal
  /** Called with errors that only the person who started the server may see. */
  readonly onError: (error: unknown) => void
}

/** Runs the server of one client until it leaves. Throws a `FareboxError` for folders that cannot be allowed. */
export async function runServer(options: ServerOptions): Promise<void> {
  const { version, allowsPrivateAddresses, home, budgets, stdin, stdout, signal, onError } = options
  const limits = openLimits(home, budgets)
  const hidden = [home, dirname(limits.path), ...keyFilesOf(options)]
  const folders = await openFolders({ folders: options.folders, hidden, allowsPrivateAddresses })
  const session = openSession(options, { limits, folders })
  const confirmations = new Confirmations(limits)
  const parts = { session, tools: TOOLS, version, onError, confirmations }
  try {
    const open = (onCall: (work: Promise<unknown>) => void) => createServer({ ...parts, onCall })
    await serve({ stdin, stdout, signal, onError, createServer: open })
  } finally {
    await session.close()
  }
}

function keyFilesOf({ keyFile, environment }: SessionSettings): readonly string[] {
  return [keyFile, environment['FAREBOX_KEY_FILE']].flatMap((path) => (path ? [path] : []))
}
