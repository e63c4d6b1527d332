import { readFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'
import { z } from 'zod'
import type { Author } from '#shared/operators/author.ts'
import { OPERATOR_NAME } from '#shared/operators/operator-account.ts'
import { watchRequests } from '#shared/runtime/watch-requests.ts'

/** Thrown for wrong arguments or settings; the message is for the operator. */
export class UsageError extends Error {}

/** Thrown when nothing was changed, with the reason. */
export class Refusal extends Error {}

const [DONE, REFUSED, FAILED] = [0, 1, 2]

/** The types of options. */
export const [FLAG, TEXT] = [{ type: 'boolean' } as const, { type: 'string' } as const]

/** The options of every command that reads or changes the ledger. */
export const COMMON = { as: TEXT, json: FLAG, help: FLAG }

interface CommonOptions {
  readonly databaseUrl: string
  readonly author: Author
  /** Whether to print JSON. */
  readonly asJson: boolean
}

/** Returns what the common options and DATABASE_URL say. Throws `UsageError`. */
export function readCommon(
  values: { readonly as?: string; readonly json?: boolean },
  { DATABASE_URL: databaseUrl }: NodeJS.ProcessEnv,
): CommonOptions {
  if (!databaseUrl) throw new UsageError('set DATABASE_URL to the database of the service')
  return { databaseUrl, author: readAuthor(values.as), asJson: values.json ?? false }
}

/** Renders JSON for the output; big integers as strings of decimal digits. */
export function toJson(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) => (typeof member === 'bigint' ? member.toString() : member), 2)
}

/** Returns the function that runs a command by its command line and settings, and returns its exit code. */
export function createCommand<Options>(
  help: string,
  read: (commandLine: readonly string[], settings: NodeJS.ProcessEnv) => Options | null | Promise<Options | null>,
  run: (options: Options) => Promise<number | void>,
) {
  return async (commandLine: readonly string[], settings: NodeJS.ProcessEnv): Promise<number> =>
    await runCommand(help, () => read(commandLine, settings), run)
}

/**
 * Runs a command and returns its exit code. Without options, which `--help` asks for, it prints the help, and so it does after
 * the message of a `UsageError`.
 */
export async function runCommand<Options>(
  help: string,
  read: () => Options | null | Promise<Options | null>,
  run: (options: Options) => Promise<number | void>,
): Promise<number> {
  try {
    const options = await read()
    if (options !== null) return (await namingWaits(async () => await run(options))) ?? DONE
    console.log(help)
    return DONE
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    console.error(error instanceof UsageError ? `${message}\n\n${help}` : message)
    return error instanceof Refusal ? REFUSED : FAILED
  }
}

/** Runs work, and meanwhile names each server that does not answer on standard error. */
export async function namingWaits<Result>(work: () => Promise<Result>): Promise<Result> {
  const stop = watchRequests((clause) => console.error(clause))
  try {
    return await work()
  } finally {
    stop()
  }
}

/** Returns text from elsewhere so that nothing in it moves the cursor of a terminal. */
export function oneLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\s]+/gu, ' ')
}

/** Returns options and arguments. Throws `UsageError`. */
export function readArguments<const Options extends ParseArgsOptionsConfig>(
  commandLine: readonly string[],
  options: Options,
) {
  return naming(() => parseArgs({ args: [...commandLine], options, allowPositionals: true }))
}

/** Returns the options of a command that takes nothing else. Throws `UsageError`. */
export function readFlags<const Options extends ParseArgsOptionsConfig>(
  commandLine: readonly string[],
  options: Options,
) {
  return naming(() => parseArgs({ args: [...commandLine], options, allowPositionals: false })).values
}

function naming<Read>(read: () => Read): Read {
  try {
    return read()
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

/** Returns options as the schema has them. Throws a `UsageError` that names each one that is wrong. */
export function checkedFlags<Schema extends z.ZodType>(schema: Schema, flags: unknown): z.output<Schema> {
  return checked(schema, flags, ([name]) => `--${String(name)}`)
}

/** Returns settings as the schema has them. Throws a `UsageError` that names each one that is wrong. */
export function checkedSettings<Schema extends z.ZodType>(
  schema: Schema,
  settings: unknown,
  source = '',
): z.output<Schema> {
  return checked(schema, settings, (path) => `${source}${path.join('.')}`)
}

function checked<Schema extends z.ZodType>(
  schema: Schema,
  values: unknown,
  nameOf: (path: readonly PropertyKey[]) => string,
): z.output<Schema> {
  const parsed = schema.safeParse(values)
  if (parsed.success) return parsed.data
  throw new UsageError(parsed.error.issues.map(({ path, message }) => `${nameOf(path)} ${message}`).join('\n'))
}

/** Returns who is recorded as the author: by default the user of this machine. */
export function readAuthor(given: string | undefined): Author {
  return { operator: readOperatorName(given ?? userInfo().username.toLowerCase(), '--as'), source: 'command' }
}

export function readOperatorName(name: string | undefined, what: string): string {
  if (name === undefined) throw new UsageError(`${what} is missing`)
  if (OPERATOR_NAME.test(name)) return name
  throw new UsageError(`${what} must have lower-case letters, digits, dots, dashes, underscores or @, and at most 63`)
}

const sandboxSchema = z.object({ databaseUrl: z.url(), rpcUrl: z.url() })

/** Returns database and chain of the running sandbox, as settings. Throws `UsageError` when none is running. */
export async function readSandbox(environment: NodeJS.ProcessEnv) {
  const file = environment['SANDBOX_FILE'] || '.farebox/sandbox.json'
  const content = await readFile(file, 'utf8').catch(() => {
    throw new UsageError(`${file} cannot be read: no sandbox is running. Start one with npm start.`)
  })
  const { databaseUrl, rpcUrl } = checkedSettings(sandboxSchema, JSON.parse(content), `${file}: `)
  return { DATABASE_URL: databaseUrl, RPC_URL: rpcUrl }
}
