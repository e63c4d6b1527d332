import { userInfo } from 'node:os'
import { parseArgs } from 'node:util'
import type { Author } from '#shared/operators/author.ts'
import { OPERATOR_NAME, ROLES, type Role, SHORTEST_PASSWORD } from '#shared/operators/operator-account.ts'

export class UsageError extends Error {}

/** What is to be done with an account. */
export type OperatorsCommand =
  | { readonly command: 'list' }
  | { readonly command: 'add' | 'role'; readonly name: string; readonly role: Role }
  | { readonly command: 'password' | 'disable' | 'enable'; readonly name: string }

export interface OperatorsOptions {
  readonly request: OperatorsCommand
  readonly author: Author
  /** Reads a new password from standard input; otherwise one is generated and printed. */
  readonly readsPassword: boolean
  readonly asJson: boolean
  readonly databaseUrl: string
}

export const HELP = `Usage: npm run operators -- <command> [options]

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

const OPTIONS = {
  'password-stdin': { type: 'boolean' },
  as: { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean' },
} as const

/** Reads the command line. Returns `null` when only help is asked for; throws `UsageError`. */
export function readOptions(commandLine: readonly string[], environment: NodeJS.ProcessEnv): OperatorsOptions | null {
  const { values, positionals } = parse(commandLine)
  if (values.help) return null
  const request = readRequest(positionals)
  const readsPassword = values['password-stdin'] ?? false
  if (readsPassword && request.command !== 'add' && request.command !== 'password')
    throw new UsageError(`${request.command} takes no password`)
  const { DATABASE_URL: databaseUrl } = environment
  if (!databaseUrl) throw new UsageError('set DATABASE_URL to the database of the service')
  return {
    request,
    author: { operator: readName(values.as ?? userInfo().username.toLowerCase(), '--as'), source: 'command' },
    readsPassword,
    asJson: values.json ?? false,
    databaseUrl,
  }
}

function readRequest([command, name, role, ...others]: readonly string[]): OperatorsCommand {
  if (others[0] !== undefined) throw new UsageError(`"${others[0]}" is one argument too many`)
  switch (command) {
    case 'list':
      refuseSurplus(name)
      return { command }
    case 'add':
    case 'role':
      return { command, name: readName(name, 'NAME'), role: readRole(role) }
    case 'password':
    case 'disable':
    case 'enable':
      refuseSurplus(role)
      return { command, name: readName(name, 'NAME') }
    default:
      throw new UsageError('the command must be one of list, add, role, password, disable, enable')
  }
}

function refuseSurplus(argument: string | undefined): void {
  if (argument !== undefined) throw new UsageError(`"${argument}" is one argument too many`)
}

function readName(name: string | undefined, what: string): string {
  if (name === undefined) throw new UsageError(`${what} is missing`)
  if (OPERATOR_NAME.test(name)) return name
  throw new UsageError(`${what} must have lower-case letters, digits, dots, dashes, underscores or @, and at most 63`)
}

function readRole(given: string | undefined): Role {
  const role = ROLES.find((known) => known === given)
  if (!role) throw new UsageError(`ROLE must be one of ${ROLES.join(', ')}`)
  return role
}

function parse(commandLine: readonly string[]) {
  try {
    return parseArgs({ options: OPTIONS, args: [...commandLine], allowPositionals: true })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}
