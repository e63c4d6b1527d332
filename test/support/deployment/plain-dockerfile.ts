import { execFile } from 'node:child_process'
import { cp, mkdir, readFile, rename } from 'node:fs/promises'
import { isAbsolute, join, relative, resolve } from 'node:path'
import { promisify } from 'node:util'
import dockerIgnore from '@balena/dockerignore'
import { type Copy, type Dockerfile, DockerfileParser, type Instruction, type JSONInstruction } from 'dockerfile-ast'

/** The result of a Dockerfile: the last stage's files in a plain folder, and how its container would run. */
export interface PlainImage {
  /** The folder that corresponds to the image's WORKDIR. */
  readonly directory: string
  readonly environment: Readonly<Record<string, string>>
  /** ENTRYPOINT and CMD, in exec form. */
  readonly entrypoint: readonly string[]
  readonly command: readonly string[]
  /** HEALTHCHECK CMD, in exec form. */
  readonly healthCheck: readonly string[]
  /** RUN lines that need another root file system, and what is copied from there to outside of /app, verbatim. */
  readonly notRun: readonly string[]
  readonly labels: Readonly<Record<string, string>>
}

export async function parseDockerfile(path: string): Promise<Dockerfile> {
  return DockerfileParser.parse(await readFile(path, 'utf8'))
}

/**
 * Executes a Dockerfile of COPY, `RUN npm …`, `RUN node …` and settings, with a folder for each stage below `target`. Supports only
 * what this repository's Dockerfile uses and throws otherwise. Files that .dockerignore excludes cannot be copied.
 */
export async function executeDockerfile(dockerfile: Dockerfile, context: string, target: string): Promise<PlainImage> {
  const ignored = dockerIgnore.default().add(await readFile(join(context, '.dockerignore'), 'utf8'))
  const stages = new Map<string, string>()
  const notRun: string[] = []
  let stage = ''
  const last = {
    environment: {},
    labels: {},
    entrypoint: [] as string[],
    command: [] as string[],
    healthCheck: [] as string[],
  }
  for (const instruction of dockerfile.getInstructions()) {
    const text = instruction.getRawArgumentsContent() ?? ''
    switch (instruction.getKeyword()) {
      case 'FROM': {
        const name = /\sAS\s+(\S+)$/i.exec(text)?.[1] ?? 'last'
        stage = join(target, name)
        stages.set(name, stage)
        await mkdir(stage, { recursive: true })
        break
      }
      case 'WORKDIR':
        // The same in all stages: the stage's folder.
        if (text !== '/app') throw new Error(`another WORKDIR than /app: ${text}`)
        break
      case 'COPY':
        if (/ \/(?!app\/)\S+$/.test(text)) notRun.push(`COPY ${text}`)
        else await copy(instruction as Copy, { context, stage, stages, ignored })
        break
      case 'RUN': {
        const script = (instruction.getArgumentsContent() ?? '').replace(/\\\n/g, ' ')
        const program = script.split(' ')[0]
        if (program === 'npm') await execute(script, { cwd: stage, env: npmSettings() })
        else if (program === 'node')
          await execute(script.replace('node', process.execPath), { cwd: stage, env: last.environment })
        else notRun.push(script)
        break
      }
      case 'ENV':
        Object.assign(
          last.environment,
          Object.fromEntries(
            instruction.getArguments().map((pair) => split(pair.getValue().replace('=/app/', `=${stage}/`))),
          ),
        )
        break
      case 'LABEL':
        Object.assign(last.labels, Object.fromEntries(instruction.getArguments().map((pair) => split(pair.getValue()))))
        break
      case 'ENTRYPOINT':
        last.entrypoint = execForm(instruction)
        break
      case 'CMD':
        last.command = execForm(instruction)
        break
      case 'HEALTHCHECK':
        last.healthCheck = JSON.parse(/CMD\s+(\[.*\])/s.exec(text)?.[1] ?? '[]') as string[]
        break
      case 'ARG':
      case 'USER':
      case 'EXPOSE':
      case 'STOPSIGNAL':
        break
      default:
        throw new Error(`unsupported instruction: ${instruction.getKeyword()}`)
    }
  }
  return { ...last, directory: stage, notRun }
}

function execute(script: string, options: { cwd: string; env: NodeJS.ProcessEnv }): Promise<unknown> {
  return promisify(execFile)('sh', ['-c', script], options)
}

interface CopyContext {
  readonly context: string
  readonly stage: string
  readonly stages: ReadonlyMap<string, string>
  readonly ignored: ReturnType<typeof dockerIgnore.default>
}

async function copy(instruction: Copy, { context, stage, stages, ignored }: CopyContext): Promise<void> {
  const paths = instruction.getArguments().map((argument) => argument.getValue())
  const destination = paths.pop() ?? ''
  const from = instruction.getFlags().find((flag) => flag.getName() === 'from')
  for (const path of paths) {
    // Several sources, or a destination that ends with a slash, mean a folder.
    const isFolder = destination.endsWith('/')
    const place = join(stage, destination, isFolder ? (path.split('/').at(-1) ?? '') : '')
    if (from) {
      const other = stages.get(from.getValue() ?? '')
      if (other === undefined || !isAbsolute(path)) throw new Error(`COPY from an unknown place: ${path}`)
      // Moved instead of copied: the earlier stage is no longer needed, and its packages are thousands of files.
      await rename(join(other, relative('/app', path)), place)
      continue
    }
    const source = resolve(context, path)
    let copied = 0
    await cp(source, place, {
      recursive: true,
      filter: (file) => {
        const isIncluded = !ignored.ignores(relative(context, file))
        if (isIncluded) copied++
        return isIncluded
      },
    })
    if (copied === 0) throw new Error(`.dockerignore hides what COPY names: ${path}`)
  }
}

function execForm(instruction: Instruction): string[] {
  const strings = (instruction as JSONInstruction).getJSONStrings().map((string) => string.getJSONValue())
  if (strings.length === 0)
    throw new Error(`${instruction.getKeyword()} is not in exec form: a shell would take the signal`)
  return strings
}

function split(pair: string): [string, string] {
  const [name = '', ...value] = pair.split('=')
  return [name, value.join('=')]
}

/** Returns the environment of a user's shell, without what `npm test` adds to it; npm prefers its local cache. */
function npmSettings(): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_ENV$|INIT_CWD$)/.test(name))
  return { ...Object.fromEntries(own), npm_config_prefer_offline: 'true' }
}
