import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { COMPILE_CACHE } from '../../support/processes/run-program.ts'

const INSPECTOR = fileURLToPath(
  new URL('../node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js', import.meta.url),
)

export interface InspectorTarget {
  /** The command and its arguments, or the URL of a server. */
  readonly target: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  /** Where the Inspector keeps its own files. */
  readonly home: string
}

export interface InspectorRun {
  readonly exitCode: number
  /** What it printed on standard output. */
  readonly result: Record<string, unknown>
  readonly errors: string
}

/** Runs the command-line mode of the Inspector, which starts or calls the server, once. */
export async function runInspector(
  { target, environment = {}, home }: InspectorTarget,
  method: string,
  ...options: readonly string[]
): Promise<InspectorRun> {
  const variables = Object.entries(environment).flatMap(([name, value]) => ['-e', `${name}=${value}`])
  const args = [INSPECTOR, '--cli', ...target, ...variables, '--method', method, '--format', 'json', ...options]
  const env = { PATH: process.env['PATH'], HOME: home, NODE_COMPILE_CACHE: COMPILE_CACHE }
  return await new Promise((resolve) => {
    execFile(process.execPath, args, { env, maxBuffer: 2 ** 26 }, (error, stdout, errors) => {
      const { result = {} } = stdout === '' ? {} : (JSON.parse(stdout) as { result?: InspectorRun['result'] })
      resolve({ exitCode: typeof error?.code === 'number' ? error.code : error ? 1 : 0, result, errors })
    })
  })
}
