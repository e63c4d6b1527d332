import { readFile } from 'node:fs/promises'
import type { Logger } from '#shared/runtime/logger.ts'
import { namingSetting } from '#shared/runtime/start-process.ts'
import type { ApiConfig } from '../config.ts'
import type { PayerScreen } from '../paid-request/pay/payer-screen.ts'

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

/**
 * Follows a file of addresses. One that cannot be read later, or names none any more, leaves the last list in force.
 */
async function watchList(
  path: string,
  resources: AsyncDisposableStack,
  logger: Logger,
): Promise<(payer: string) => boolean> {
  let list = await readScreeningFile(path)
  let text: string | null = null
  if (list.size === 0) logger.warn('PAYER_SCREENING_FILE names no address: it refuses nobody')
  const follow = async () => {
    try {
      const current = await readFile(path, 'utf8')
      // Parsing 100,000 lines stops all requests for 0.2 s.
      if (current === text) return
      const read = parseList(current)
      // What a failed download leaves behind.
      if (read.size === 0 && list.size > 0)
        throw new Error('it names no address any more; to refuse nobody, restart without PAYER_SCREENING_FILE')
      if (read.size !== list.size)
        logger.info(`PAYER_SCREENING_FILE names ${read.size} addresses now, ${list.size} before`)
      list = read
      text = current
    } catch (error) {
      logger.warn('PAYER_SCREENING_FILE cannot be read again: the addresses that were read last stay refused', {
        error,
      })
    }
  }
  const timer = setInterval(() => void follow(), READ_AGAIN_MS)
  resources.defer(() => clearInterval(timer))
  return (payer) => list.has(payer)
}

/**
 * Reads a file with an address a line; empty lines and those after `#` count for nothing. Returns the addresses in lower
 * case. Throws a `StartFailure` with the first line that is wrong.
 */
export function readScreeningFile(path: string): Promise<ReadonlySet<string>> {
  return namingSetting('PAYER_SCREENING_FILE', async () => parseList(await readFile(path, 'utf8')))
}

function parseList(text: string): ReadonlySet<string> {
  const lines = text.split(/\r?\n/).map((line) => (line.split('#')[0] ?? '').trim().toLowerCase())
  const wrong = lines.findIndex((line) => line !== '' && !ADDRESS.test(line))
  if (wrong !== -1) throw new Error(`line ${wrong + 1} is not an address`)
  return new Set(lines.filter((line) => line !== ''))
}
