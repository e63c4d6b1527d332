import { readFile, stat } from 'node:fs/promises'
import type { Logger } from '#shared/runtime/logger.ts'
import { namingSetting } from '#shared/runtime/start-process.ts'
import type { ApiConfig } from '../config.ts'
import type { PayerScreen } from '../paid-request/payment/payer-screen.ts'

const ADDRESS = /^0x[0-9a-f]{40}$/
const READ_AGAIN_MS = 30_000

interface ScreenParts {
  /** Whether operators block a payer. */
  readonly isBlocked: (payer: string) => boolean
  readonly oracle: PayerScreen['isListedOnChain']
  readonly logger: Logger
}

/** Composes who may pay: the operators' blocks and the file, and the list on chain, which costs a call of the node. */
export async function composePayerScreen(
  { PAYER_SCREENING_FILE: path }: ApiConfig,
  resources: AsyncDisposableStack,
  { isBlocked, oracle, logger }: ScreenParts,
): Promise<PayerScreen> {
  const isListed = path === undefined ? () => false : await watchList(path, resources, logger)
  return { isRefused: (payer) => isBlocked(payer) || isListed(payer), isListedOnChain: oracle }
}

/** Follows a file of addresses. One that cannot be read later leaves the last list in force. */
async function watchList(
  path: string,
  resources: AsyncDisposableStack,
  logger: Logger,
): Promise<(payer: string) => boolean> {
  const read = async () => {
    // Before the text: a change in between is read again.
    const { mtimeMs: changedAt } = await stat(path)
    return { ...parseList(await readFile(path, 'utf8')), changedAt }
  }
  let list = await namingSetting('PAYER_SCREENING_FILE', read)
  const follow = async () => {
    try {
      if ((await stat(path)).mtimeMs !== list.changedAt) list = await read()
    } catch (error) {
      logger.warn('PAYER_SCREENING_FILE cannot be read again: the addresses that were read last stay refused', {
        error,
      })
    }
  }
  const timer = setInterval(() => void follow(), READ_AGAIN_MS)
  resources.defer(() => clearInterval(timer))
  return (payer) => list.addresses.has(payer)
}

/** Reads an address a line; empty lines and those after `#` count for nothing. Throws with the first line that is wrong. */
function parseList(text: string): { readonly addresses: ReadonlySet<string> } {
  const lines = text.split(/\r?\n/).map((line) => (line.split('#')[0] ?? '').trim().toLowerCase())
  const wrong = lines.findIndex((line) => line !== '' && !ADDRESS.test(line))
  if (wrong !== -1) throw new Error(`line ${wrong + 1} is not an address`)
  return { addresses: new Set(lines.filter((line) => line !== '')) }
}
