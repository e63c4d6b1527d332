import { randomBytes } from 'node:crypto'
import { text } from 'node:stream/consumers'
import type { Command } from 'commander'
import { z } from 'zod'
import type { AccountChange, OperatorAccount } from '#shared/ledger/operators/accounts.ts'
import { createOperatorStore, type OperatorStore } from '#shared/ledger/operators/operator-store.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'
import type { Author } from '#shared/operators/author.ts'
import { LONGEST_PASSWORD, ROLES, SHORTEST_PASSWORD } from '#shared/operators/operator-account.ts'
import { hashPassword } from '#shared/operators/password.ts'
import {
  addCommon,
  checkedArgument,
  checkedFlags,
  createMain,
  Refusal,
  type Run,
  readCommon,
  readOperatorName,
  type Settings,
} from '../command-line.ts'

/** 24 letters and digits: 144 bits. */
const GENERATED_BYTES = 18

const nameArgument = (name: string | undefined) => readOperatorName(name ?? '', 'NAME')
const roleArgument = z.enum(ROLES, { error: `must be one of ${ROLES.join(', ')}` })
const passwordOptions = z.object({ passwordStdin: z.boolean().default(false) })

/** What a command did, as a sentence and as JSON. */
interface Outcome {
  readonly sentence: string
  readonly json: object
}

/** Runs the command and returns its exit code. */
export const main = (
  commandLine: readonly string[],
  settings: Settings,
  input: NodeJS.ReadableStream = process.stdin,
) => createMain('operators', (command, run) => addActions(command, run, input))(commandLine, settings)

function addActions(command: Command, run: Run, input: NodeJS.ReadableStream): Command {
  const does = (
    action: (accounts: OperatorStore, given: Given, ...positionals: readonly string[]) => Promise<Outcome>,
  ) =>
    run(async (flags, settings, ...positionals) => {
      const { databaseUrl: connectionString, author, asJson } = readCommon(flags, settings)
      const { passwordStdin } = checkedFlags(passwordOptions, flags)
      const given = { author, readPassword: () => choosePassword(passwordStdin ? input : null) }
      const connection = { connectionString, applicationName: 'farebox operators' }
      const outcome = await withConnection(connection, (pool) =>
        action(createOperatorStore(pool), given, ...positionals),
      )
      console.log(asJson ? JSON.stringify(outcome.json, null, 2) : outcome.sentence)
    })
  addCommon(command)
    .description(
      `The accounts of the operators' console. Every change is recorded with its author; no account is ever deleted.
add and password print a generated password once. Its owner changes it on the page of their account.`,
    )
    .addHelpText(
      'after',
      `
Reads DATABASE_URL. Exit code: 0 when done, 1 when the change is refused, 2 for wrong arguments or a database that
cannot be reached.`,
    )
  command
    .command('list')
    .description('list the accounts')
    .action(does(async (accounts) => listed(await accounts.listAccounts())))
  command
    .command('add <name> <role>')
    .description('add an account; ROLE is read (sees everything) or act (also changes things)')
    .option(...PASSWORD_STDIN)
    .action(does(add))
  command
    .command('role <name> <role>')
    .description('change what an account may do; acts at once')
    .action(does(changeRole))
  command
    .command('password <name>')
    .description('give an account a new password, which ends its sessions')
    .option(...PASSWORD_STDIN)
    .action(does(changePassword))
  command
    .command('disable <name>')
    .description("end an account's sessions and refuse its sign-ins")
    .action(does(disable))
  command.command('enable <name>').description('let a disabled account sign in again').action(does(enable))
  return command
}

const PASSWORD_STDIN = [
  '--password-stdin',
  `read the password from standard input instead (at least ${SHORTEST_PASSWORD} characters)`,
] as const

interface Given {
  readonly author: Author
  /** Generates one, or reads it from standard input. */
  readonly readPassword: () => Promise<Password>
}

async function add(accounts: OperatorStore, given: Given, named?: string, withRole?: string): Promise<Outcome> {
  const [name, role] = [nameArgument(named), checkedArgument(roleArgument, 'ROLE', withRole)]
  const password = await given.readPassword()
  const account = { name, role, passwordHash: await hashPassword(password.value) }
  if ((await accounts.addAccount(account, given.author)) === 'exists')
    throw new Refusal(`There is an account ${name} already.`)
  return withPassword(`Added ${name}, who ${role === 'act' ? 'may act' : 'reads'}.`, password, { name, role })
}

async function changePassword(accounts: OperatorStore, given: Given, named?: string): Promise<Outcome> {
  const name = nameArgument(named)
  const password = await given.readPassword()
  requireChange(await accounts.changePassword(name, await hashPassword(password.value), given.author), name)
  return withPassword(`Changed the password of ${name} and ended its sessions.`, password, { name })
}

async function changeRole(
  accounts: OperatorStore,
  { author }: Given,
  named?: string,
  withRole?: string,
): Promise<Outcome> {
  const [name, role] = [nameArgument(named), checkedArgument(roleArgument, 'ROLE', withRole)]
  requireChange(await accounts.changeRole(name, role, author), name)
  return { sentence: `${name} ${role === 'act' ? 'may act' : 'only reads'} now.`, json: { name, role } }
}

async function disable(accounts: OperatorStore, { author }: Given, named?: string): Promise<Outcome> {
  const name = nameArgument(named)
  requireChange(await accounts.disableAccount(name, author), name)
  return { sentence: `Disabled ${name} and ended its sessions.`, json: { name } }
}

async function enable(accounts: OperatorStore, { author }: Given, named?: string): Promise<Outcome> {
  const name = nameArgument(named)
  requireChange(await accounts.enableAccount(name, author), name)
  return { sentence: `${name} may sign in again.`, json: { name } }
}

function requireChange(change: AccountChange, name: string): void {
  if (change === 'unknown') throw new Refusal(`There is no account ${name}.`)
  if (change === 'last_actor')
    throw new Refusal(`${name} is the last account that may act. Give another one the role first.`)
}

interface Password {
  readonly value: string
  readonly isGenerated: boolean
}

/** Without an input it generates one. */
async function choosePassword(input: NodeJS.ReadableStream | null): Promise<Password> {
  if (!input) return { value: randomBytes(GENERATED_BYTES).toString('base64url'), isGenerated: true }
  const value = (await text(input)).replace(/\r?\n$/, '')
  if (value.length < SHORTEST_PASSWORD || value.length > LONGEST_PASSWORD)
    throw new Refusal(`A password has ${SHORTEST_PASSWORD} to ${LONGEST_PASSWORD} characters.`)
  return { value, isGenerated: false }
}

function withPassword(sentence: string, { value, isGenerated }: Password, json: object): Outcome {
  if (!isGenerated) return { sentence, json }
  return { sentence: `${sentence}\nPassword, shown only now: ${value}`, json: { ...json, password: value } }
}

function listed(accounts: readonly OperatorAccount[]): Outcome {
  const rows = accounts.map(({ name, role, disabledAt, lastUsedAt }) =>
    [
      name.padEnd(24),
      role.padEnd(4),
      (disabledAt === null ? 'enabled' : 'disabled').padEnd(8),
      lastUsedAt === null ? 'no open session' : `used ${lastUsedAt.toISOString()}`,
    ].join('  '),
  )
  return { sentence: rows.length === 0 ? 'There is no account yet.' : rows.join('\n'), json: { accounts } }
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2), process.env)
