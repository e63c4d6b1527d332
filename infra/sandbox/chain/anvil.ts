import { randomUUID } from 'node:crypto'
import { createRequire } from 'node:module'
import { arch, platform } from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import { findFreePort } from '../processes/free-port.ts'
import { spawnGuarded } from '../processes/guarded-process.ts'

/** Another process can take a free port before anvil binds it; a port that the caller requested is tried once. */
const PORT_ATTEMPTS = 3

/** A running anvil that answers on `rpcUrl`. */
export type Anvil = Awaited<ReturnType<typeof startAnvil>>

interface AnvilOptions {
  /** Arguments in addition to host, port and verbosity. */
  args: readonly string[]
  /** A free port by default. */
  port?: number | undefined
  log?: ((line: string) => void) | undefined
}

/**
 * Starts anvil on 127.0.0.1 as a guarded process and waits until it answers.
 *
 * @throws Error with anvil's last output when it ends before it answers.
 */
export async function startAnvil({ args, port, log }: AnvilOptions) {
  const attempts = port === undefined ? PORT_ATTEMPTS : 1
  for (let attempt = 1; ; attempt++) {
    const chosenPort = port ?? (await findFreePort())
    // The only allowed browser origin does not exist, so no web page can use the chain.
    const origin = `http://${randomUUID()}.invalid`
    const anvil = spawnGuarded({
      command: findAnvilBinary(),
      args: ['--host', '127.0.0.1', '--port', String(chosenPort), '--allow-origin', origin, '--quiet', ...args],
      log: (line) => log?.(line),
    })
    const rpcUrl = `http://127.0.0.1:${chosenPort}`
    const waiting = new AbortController()
    const outcome = await Promise.race([waitUntilAnswering(rpcUrl, origin, waiting.signal), anvil.exited])
    waiting.abort()
    if (outcome === 'answering') return { ...anvil, rpcUrl }
    if (attempt === attempts) {
      throw new Error(
        `anvil ended (${outcome.signal ?? `code ${outcome.code}`}): ${anvil.lastLines.slice(-10).join('\n')}`,
      )
    }
  }
}

/** Returns the path of the binary, not of the package's Node launcher, which would outlive it and hide its process id. */
function findAnvilBinary(): string {
  const cpu = arch === 'x64' ? 'amd64' : arch
  const anvilPackage = createRequire(import.meta.url).resolve('@foundry-rs/anvil/package.json')
  try {
    return createRequire(anvilPackage).resolve(`@foundry-rs/anvil-${platform}-${cpu}/bin/anvil`)
  } catch (cause) {
    throw new Error(`No anvil binary for ${platform} ${cpu}; run npm ci with optional dependencies`, { cause })
  }
}

/**
 * Resolves when this anvil answers, or never.
 *
 * An answer counts only when it contains our `origin`: on a port that was already taken, another anvil would answer.
 */
async function waitUntilAnswering(rpcUrl: string, origin: string, signal: AbortSignal): Promise<'answering'> {
  while (!signal.aborted) {
    const answer = await fetch(rpcUrl, { method: 'OPTIONS', signal }).catch(() => undefined)
    if (answer?.headers.get('access-control-allow-origin') === origin) return 'answering'
    await delay(5)
  }
  return new Promise(() => undefined)
}
