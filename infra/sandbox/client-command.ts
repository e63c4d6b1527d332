import { cp, mkdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Engines, SIMULATED } from './engines.ts'
import { samples } from './samples/scripts.ts'
import type { SandboxInfo } from './sandbox.ts'
import { CLIENT_STATE } from './state-directory.ts'

const SAMPLES = fileURLToPath(new URL('samples', import.meta.url))
/** Where `npm ci` links the client's command. */
const PROGRAM = fileURLToPath(new URL('../../node_modules/.bin/farebox', import.meta.url))

/** Puts the sample recordings that can be understood into `folder`, unless they are there. */
export async function copySamples(folder: string, { hearing }: Engines = SIMULATED): Promise<void> {
  await mkdir(folder, { recursive: true })
  for (const { file, language } of samples)
    if (hearing !== 'pocketsphinx' || language === 'eng')
      await cp(join(SAMPLES, file), join(folder, file), { force: false })
}

/** Returns the options without which the command asks for what a real engine does not tell: speakers and sounds. */
export function transcribeOptions({ hearing }: Engines): readonly string[] {
  return hearing === 'simulated' ? [] : ['--speakers', 'none', '--no-events']
}

/** Returns the settings with which the client calls this sandbox and pays with its payer. */
export function clientEnvironment({ baseUrl, rpcUrl, payer }: SandboxInfo, home: string): Record<string, string> {
  return {
    FAREBOX_URL: baseUrl,
    FAREBOX_PRIVATE_KEY: payer.privateKey,
    FAREBOX_RPC_URL: rpcUrl,
    FAREBOX_HOME: home,
  }
}

/** Prepares a folder of recordings and returns the line for a shell that transcribes it with the client. */
export async function prepareClient(info: SandboxInfo, directory: string, engines: Engines): Promise<string> {
  const state = join(directory, CLIENT_STATE)
  const recordings = join(state, 'recordings')
  await copySamples(recordings, engines)
  const settings = Object.entries(clientEnvironment(info, path(join(state, 'home'))))
  const command = [path(PROGRAM), 'transcribe', ...transcribeOptions(engines), path(recordings)]
  return [...settings.map(([name, value]) => `${name}=${value}`), ...command].join(' ')
}

/** Returns a path as a shell in this folder takes it. */
function path(target: string): string {
  const text = relative('.', target)
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
