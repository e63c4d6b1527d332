import { randomBytes } from 'node:crypto'
import { text } from 'node:stream/consumers'
import type { AccountChange, OperatorAccount } from '#shared/ledger/operators/accounts.ts'
import { createOperatorStore, type OperatorStore } from '#shared/ledger/operators/operator-store.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'
import { LONGEST_PASSWORD, ROLES, type Role, SHORTEST_PASSWORD } from '#shared/operators/operator-account.ts'
import { hashPassword } from '#shared/operators/password.ts'
import {
  COMMON,
  FLAG,
  Refusal,
  readArguments,
  readCommon,
  readOperatorName,
  runCommand,
  UsageError,
} from '../command-line.ts'

/** What is to be done with an account. */
type Request =
  | { readonly command: 'list' }
  | { readonly command: 'add' | 'role'; readonly name: string; readonly role: Role }
  | { readonly command: 'password' | 'disable' | 'enable'; readonly name: string }

type Options = NonNullable<ReturnType<typeof readOptions>>

const HELP = `Usage: npm run operators -- <command> [options]

The accounts of the operators' console. Every change is recorded with its author; no account is ever deleted.

  list                 list the accounts
  add NAME ROLE        add an account; ROLE is read (sees everything) or act (also changes things)
  role NAME ROLE       change what an account may do; acts at once
  password NAME        give an account a new password, which ends its sessions
  disable NAME         end an account's sessions and refuse its sign-ins
  enable NAME          let a disabled account sign in again

add and password print a generated password once. Its owner changes it on the page of their account.

  --password-stdin     read the password from standard input instead (at least ${SHORTEST_PASSWORD} characters)
  --as <name>          who makes the change; by default the user of this machine
  --json               print one JSON object
  --help               show this text

Reads DATABASE_URL. Exit code: 0 when done, 1 when the change is refused, 2 for wrong arguments or a database that
cannot be reached.`

/** Reads the command line. Returns `null` when only help is asked for; throws `UsageError`. */
function readOptions(commandLine: readonly string[], environment: NodeJS.ProcessEnv) {
  const { values, positionals } = readArguments(commandLine, { ...COMMON, 'password-stdin': FLAG })
  if (values.help) return null
  const request = readRequest(positionals)
  // Otherwise one is generated and printed.
  const readsPassword = values['password-stdin'] ?? false
  if (readsPassword && request.command !== 'add' && request.command !== 'password')
    throw new UsageError(`${request.command} takes no password`)
  return { ...readCommon(values, environment), request, readsPassword }
}

function readRequest([command, name, role, ...others]: readonly string[]): Request {
  if (others[0] !== undefined) throw new UsageError(`"${others[0]}" is one argument too many`)
  switch (command) {
    case 'list':
      refuseSurplus(name)
      return { command }
    case 'add':
    case 'role':
      return { command, name: readOperatorName(name, 'NAME'), role: readRole(role) }
    case 'password':
    case 'disable':
    case 'enable':
      refuseSurplus(role)
      return { command, name: readOperatorName(name, 'NAME') }
    default:
      throw new UsageError('the command must be one of list, add, role, password, disable, enable')
  }
}

function refuseSurplus(argument: string | undefined): void {
  if (argument !== undefined) throw new UsageError(`"${argument}" is one argument too many`)
}

function readRole(given: string | undefined): Role {
  const role = ROLES.find((known) => known === given)
  if (!role) throw new UsageError(`ROLE must be one of ${ROLES.join(', ')}`)
  return role
}

/** 24 letters and digits: 144 bits. */
const GENERATED_BYTES = 18

/** What a command did, as a sentence and as JSON. */
interface Outcome {
  readonly sentence: string
  readonly json: object
}

/** Runs the command and returns its exit code. */
export async function main(
  commandLine: readonly string[],
  environment: NodeJS.ProcessEnv,
  input: NodeJS.ReadableStream = process.stdin,
): Promise<number> {
  return await runCommand(
    HELP,
    () => readOptions(commandLine, environment),
    async (options) => {
      const connection = { connectionString: options.databaseUrl, applicationName: 'farebox operators' }
      const outcome = await withConnection(connection, (pool) => run(createOperatorStore(pool), options, input))
      console.log(options.asJson ? JSON.stringify(outcome.json, null, 2) : outcome.sentence)
    },
  )
}

async function run(accounts: OperatorStore, options: Options, input: NodeJS.ReadableStream): Promise<Outcome> {
  const { request, author } = options
  switch (request.command) {
    case 'list':
      return listed(await accounts.listAccounts())
    case 'add': {
      const { name, role } = request
      const password = await choosePassword(options, input)
      const added = await accounts.addAccount({ name, role, passwordHash: await hashPassword(password.value) }, author)
      if (added === 'exists') throw new Refusal(`There is an account ${name} already.`)
      return withPassword(`Added ${name}, who ${role === 'act' ? 'may act' : 'reads'}.`, password, { name, role })
    }
    case 'password': {
      const { name } = request
      const password = await choosePassword(options, input)
      requireChange(await accounts.changePassword(name, await hashPassword(password.value), author), name)
      return withPassword(`Changed the password of ${name} and ended its sessions.`, password, { name })
    }
    case 'role': {
      const { name, role } = request
      requireChange(await accounts.changeRole(name, role, author), name)
      return { sentence: `${name} ${role === 'act' ? 'may act' : 'only reads'} now.`, json: { name, role } }
    }
    case 'disable':
      requireChange(await accounts.disableAccount(request.name, author), request.name)
      return { sentence: `Disabled ${request.name} and ended its sessions.`, json: { name: request.name } }
    case 'enable':
      requireChange(await accounts.enableAccount(request.name, author), request.name)
      return { sentence: `${request.name} may sign in again.`, json: { name: request.name } }
  }
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

async function choosePassword({ readsPassword }: Options, input: NodeJS.ReadableStream): Promise<Password> {
  if (!readsPassword) return { value: randomBytes(GENERATED_BYTES).toString('base64url'), isGenerated: true }
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
