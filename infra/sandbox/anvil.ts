import { randomUUID } from 'node:crypto'
import { createRequire } from 'node:module'
import { arch, platform } from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import { findFreePort } from './free-port.ts'
import { type GuardedProcess, spawnGuarded } from './guarded-process.ts'

/** A free port can be taken by another process before anvil binds it; a port that the caller asked for is tried once. */
const PORT_ATTEMPTS = 3

/** A running anvil that answers on `rpcUrl`. */
export interface Anvil extends GuardedProcess {
  rpcUrl: string
}

/** How to start anvil. */
export interface AnvilOptions {
  /** Arguments besides host, port and verbosity. */
  args: readonly string[]
  /** A free port when left out. */
  port?: number | undefined
  log?: ((line: string) => void) | undefined
}

/**
 * Starts anvil on 127.0.0.1 as a guarded process and waits until it answers.
 *
 * @throws Error with anvil's last output when it ends before it answers.
 */
export async function startAnvil({ args, port, log }: AnvilOptions): Promise<Anvil> {
  const attempts = port === undefined ? PORT_ATTEMPTS : 1
  for (let attempt = 1; ; attempt++) {
    const lastLines: string[] = []
    const chosenPort = port ?? (await findFreePort())
    // The only origin that may call from a browser does not exist: no web page can drive the chain behind its user's back.
    const origin = `http://${randomUUID()}.invalid`
    const anvil = spawnGuarded({
      command: findAnvilBinary(),
      args: ['--host', '127.0.0.1', '--port', String(chosenPort), '--allow-origin', origin, '--quiet', ...args],
      log: (line) => {
        lastLines.splice(0, lastLines.length - 9)
        lastLines.push(line)
        log?.(line)
      },
    })
    const rpcUrl = `http://127.0.0.1:${chosenPort}`
    const waiting = new AbortController()
    const outcome = await Promise.race([waitUntilAnswering(rpcUrl, origin, waiting.signal), anvil.exited])
    waiting.abort()
    if (outcome === 'answering') return { ...anvil, rpcUrl }
    if (attempt === attempts) {
      throw new Error(`anvil ended (${outcome.signal ?? `code ${outcome.code}`}): ${lastLines.join('\n')}`)
    }
  }
}

/** The binary itself, not the package's Node launcher: the launcher would survive it and hide its pid. */
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
 * Resolves when our anvil answers; never when it does not.
 *
 * An answer counts only when it carries our own `origin`: on a port that was taken already, another anvil answers first.
 */
async function waitUntilAnswering(rpcUrl: string, origin: string, signal: AbortSignal): Promise<'answering'> {
  while (!signal.aborted) {
    const answer = await fetch(rpcUrl, { method: 'OPTIONS', signal }).catch(() => undefined)
    if (answer?.headers.get('access-control-allow-origin') === origin) return 'answering'
    await delay(5)
  }
  return new Promise(() => undefined)
}
