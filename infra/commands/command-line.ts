import { readFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { Command, CommanderError } from 'commander'
import { z } from 'zod'
import type { Author } from '#shared/operators/author.ts'
import { OPERATOR_NAME } from '#shared/operators/operator-account.ts'
import { watchRequests } from '#shared/runtime/watch-requests.ts'

/** Thrown for wrong arguments or settings; the message is for the operator. */
export class UsageError extends Error {}

/** Thrown when nothing was changed, with the reason. */
export class Refusal extends Error {}

export type Settings = NodeJS.ProcessEnv

const [DONE, REFUSED, FAILED] = [0, 1, 2]
const HELP_WIDTH = 120

/** What a command does with its options (by names in camel case), the settings of its process, and its arguments. */
type Work = (flags: unknown, settings: Settings, ...positionals: readonly string[]) => Promise<number | void>

/** Makes an action of commander of a command's work, whose result is the exit code. */
export type Run = (work: Work) => (this: Command) => Promise<void>

/**
 * Returns the function that runs a command by its command line and settings and returns its exit code: 0 when done, 1 for a
 * `Refusal`, 2 for wrong usage (then it prints the help, too) and for what failed, unless its work says otherwise. `define`
 * adds description, options and actions. `name` is that of npm's script, or the path of a program that has none.
 */
export function createMain(name: string, define: (command: Command, run: Run) => Command) {
  return async (commandLine: readonly string[], settings: Settings): Promise<number> => {
    let exitCode = DONE
    const run: Run = (work) =>
      async function act(this: Command) {
        exitCode = await finish(this, () => work(this.optsWithGlobals(), settings, ...this.args))
      }
    const command = new Command(name.endsWith('.ts') ? `npx node ${name}` : `npm run ${name} --`)
      .configureHelp({ helpWidth: HELP_WIDTH, showGlobalOptions: true })
      .configureOutput({
        writeOut: (text) => console.log(text.trimEnd()),
        writeErr: (text) => console.error(text.trimEnd()),
      })
      .helpOption('--help', 'show this text')
      .helpCommand(false)
      .showHelpAfterError()
      .exitOverride()
    try {
      await define(command, run).parseAsync(commandLine, { from: 'user' })
      return exitCode
    } catch (error) {
      if (error instanceof CommanderError) return error.exitCode === 0 ? DONE : FAILED
      throw error
    }
  }
}

/** Runs the work of a command, prints why it did not succeed, and returns the exit code. */
async function finish(command: Command, work: () => Promise<number | void>): Promise<number> {
  try {
    return (await namingWaits(work)) ?? DONE
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error))
    if (error instanceof UsageError) console.error(`\n${command.helpInformation({ error: true }).trimEnd()}`)
    return error instanceof Refusal ? REFUSED : FAILED
  }
}

/** Runs work, and meanwhile names each server that does not answer on standard error. */
async function namingWaits<Result>(work: () => Promise<Result>): Promise<Result> {
  const stop = watchRequests((clause) => console.error(clause))
  try {
    return await work()
  } finally {
    stop()
  }
}

/** Adds the options of every command that changes the ledger; `readCommon` reads them. */
export function addCommon(command: Command): Command {
  return command
    .option('--as <name>', 'who does it, for the audit (default: the user of this machine)')
    .option('--json', 'print one JSON object')
}

const commonOptions = z.object({ as: z.string().optional(), json: z.boolean().default(false) })
const commonSettings = z.object({
  DATABASE_URL: z.string({ error: 'is not set: name the database of the service' }).min(1, { error: 'is empty' }),
})

/** Returns database, author and form of the output. Throws `UsageError`. */
export function readCommon(flags: unknown, settings: Settings) {
  const { as, json } = checkedFlags(commonOptions, flags)
  const { DATABASE_URL: databaseUrl } = checkedSettings(commonSettings, settings)
  return { databaseUrl, author: readAuthor(as), asJson: json }
}

/** Returns who is recorded as the author: by default the user of this machine. Throws `UsageError`. */
function readAuthor(given: string | undefined): Author {
  return { operator: readOperatorName(given ?? userInfo().username.toLowerCase(), '--as'), source: 'command' }
}

/** Throws `UsageError`. */
export function readOperatorName(name: string, what: string): string {
  if (OPERATOR_NAME.test(name)) return name
  throw new UsageError(`${what} must have lower-case letters, digits, dots, dashes, underscores or @, and at most 63`)
}

export const REASON = ['--reason <text>', 'why; kept with the change'] as const

/** What `--reason` says. */
export const reason = z
  .string({ error: 'is missing: it is kept with the change' })
  .trim()
  .min(1, { error: 'is empty: it is kept with the change' })
  .max(1000, { error: 'may have 1000 characters' })

/** Returns options as the schema has them, by names in camel case. Throws a `UsageError` that names each wrong one. */
export function checkedFlags<Schema extends z.ZodType>(schema: Schema, flags: unknown): z.output<Schema> {
  return checked(
    schema,
    flags,
    ([name]) => `--${String(name).replaceAll(/[A-Z]/g, (capital) => `-${capital.toLowerCase()}`)}`,
  )
}

/** Returns settings as the schema has them. Throws a `UsageError` that names each one that is wrong. */
export function checkedSettings<Schema extends z.ZodType>(
  schema: Schema,
  settings: unknown,
  source = '',
): z.output<Schema> {
  return checked(schema, settings, (path) => `${source}${path.join('.')}`)
}

/** Returns a positional argument as the schema has it. Throws a `UsageError` that names it. */
export function checkedArgument<Schema extends z.ZodType>(schema: Schema, name: string, given: unknown) {
  return checked(schema, given, () => name)
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

const sandboxSchema = z.object({ databaseUrl: z.url(), rpcUrl: z.url() })

/** Returns database and chain of the running sandbox, as settings. Throws `UsageError` when none is running. */
export async function readSandbox(environment: Settings) {
  const file = environment['SANDBOX_FILE'] || '.farebox/sandbox.json'
  const content = await readFile(file, 'utf8').catch(() => {
    throw new UsageError(`${file} cannot be read: no sandbox is running. Start one with npm start.`)
  })
  const { databaseUrl, rpcUrl } = checkedSettings(sandboxSchema, JSON.parse(content), `${file}: `)
  return { DATABASE_URL: databaseUrl, RPC_URL: rpcUrl }
}

/** Renders JSON for the output; big integers as strings of decimal digits. */
export function toJson(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) => (typeof member === 'bigint' ? member.toString() : member), 2)
}

/** Returns text from elsewhere so that nothing in it moves the cursor of a terminal. */
export function oneLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\s]+/gu, ' ')
}
