import { randomUUID } from 'node:crypto'
import type { Farebox, Wallet } from '../farebox.ts'
import { FareboxError, uncharged } from '../wire/farebox-error.ts'
import { PaidAnswers } from './call/paid-answers.ts'
import type { McpSession } from './tool.ts'

/** What a person sets where the server is started. */
export interface SessionSettings {
  readonly url: string | undefined
  /** The file of the private key; the environment names the wallet otherwise. */
  readonly keyFile: string | undefined
  readonly rpcUrl: string | undefined
  readonly home: string
  readonly environment: Readonly<NodeJS.ProcessEnv>
}

/**
 * Returns the session of one process. Service and wallet are opened at the first use, so that the tools can be listed
 * before a person has set them; a mistake can be corrected while the server runs.
 */
export function openSession(
  settings: SessionSettings,
  { limits, folders }: Pick<McpSession, 'limits' | 'folders'>,
): McpSession & { close(): Promise<void> } {
  const paying = openOnce(async () => {
    const baseUrl = requireService(settings)
    const { createFarebox } = await import('../farebox.ts')
    const { rpcUrl, home } = settings
    return await createFarebox({
      wallet: await openOwnWallet(settings),
      baseUrl,
      rpcUrl,
      journal: home,
      budget: () => limits.budget(),
      // A person approves, with `farebox approve`; no tool does.
      approves: false,
    })
  })
  const reading = openOnce(async () => {
    const baseUrl = requireService(settings)
    const { createFarebox } = await import('../farebox.ts')
    const { throwawayWallet } = await import('../wallet/wallet-from-private-key.ts')
    return await createFarebox({ wallet: throwawayWallet(), baseUrl, journal: 'memory' })
  })
  return {
    farebox: paying.open,
    fareboxWithoutWallet: reading.open,
    limits,
    folders,
    nonce: randomUUID(),
    answers: new PaidAnswers(),
    close: async () => {
      await Promise.all([paying.close(), reading.close()])
      await folders.close()
    },
  }
}

/** Opens once; what could not be opened is tried again at the next use. */
function openOnce(open: () => Promise<Farebox>) {
  let opened: Promise<Farebox> | undefined
  return {
    open: async () => {
      opened ??= open()
      try {
        return await opened
      } catch (error) {
        opened = undefined
        throw error
      }
    },
    close: async () => await (await opened?.catch(() => undefined))?.close(),
  }
}

function requireService({ url }: SessionSettings): string {
  if (url !== undefined) return url
  throw uncharged(
    'no_service',
    'No service is set.',
    'The person who started this server sets FAREBOX_URL in its configuration, or starts it with: farebox mcp --url https://SERVICE',
  )
}

async function openOwnWallet(settings: SessionSettings): Promise<Wallet> {
  const { openWallet } = await import('../wallet/open-wallet.ts')
  try {
    return await openWallet(settings)
  } catch (error) {
    if (!(error instanceof FareboxError)) throw error
    throw uncharged(
      error.code,
      error.problem,
      `${error.advice} The person who started this server does this, in its configuration or with: farebox mcp --key-file FILE`,
      error,
    )
  }
}
