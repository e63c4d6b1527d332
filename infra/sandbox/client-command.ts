import { cp, mkdir, readdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { SandboxInfo } from './sandbox.ts'
import { CLIENT_STATE } from './state-directory.ts'

const SAMPLES = fileURLToPath(new URL('samples', import.meta.url))
/** Where `npm ci` links the client's command. */
const PROGRAM = fileURLToPath(new URL('../../node_modules/.bin/farebox', import.meta.url))

/** Puts the sample recordings into `folder`, unless they are there. */
export async function copySamples(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  for (const name of (await readdir(SAMPLES)).filter((name) => name.endsWith('.mp3')))
    await cp(join(SAMPLES, name), join(folder, name), { force: false })
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
export async function prepareClient(info: SandboxInfo, directory: string): Promise<string> {
  const state = join(directory, CLIENT_STATE)
  const recordings = join(state, 'recordings')
  await copySamples(recordings)
  const settings = Object.entries(clientEnvironment(info, path(join(state, 'home'))))
  return [...settings.map(([name, value]) => `${name}=${value}`), path(PROGRAM), 'transcribe', path(recordings)].join(
    ' ',
  )
}

/** Returns a path as a shell in this folder takes it. */
function path(target: string): string {
  const text = relative('.', target)
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
