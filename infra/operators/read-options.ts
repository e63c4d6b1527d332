import type { Author } from '#shared/operators/author.ts'
import { ROLES, type Role, SHORTEST_PASSWORD } from '#shared/operators/operator-account.ts'
import {
  FLAG,
  readArguments,
  readAuthor,
  readDatabaseUrl,
  readOperatorName,
  TEXT,
  UsageError,
} from '../command-line.ts'

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
  'password-stdin': FLAG,
  as: TEXT,
  json: FLAG,
  help: FLAG,
}

/** Reads the command line. Returns `null` when only help is asked for; throws `UsageError`. */
export function readOptions(commandLine: readonly string[], environment: NodeJS.ProcessEnv): OperatorsOptions | null {
  const { values, positionals } = readArguments(commandLine, OPTIONS)
  if (values.help) return null
  const request = readRequest(positionals)
  const readsPassword = values['password-stdin'] ?? false
  if (readsPassword && request.command !== 'add' && request.command !== 'password')
    throw new UsageError(`${request.command} takes no password`)
  return {
    databaseUrl: readDatabaseUrl(environment),
    request,
    author: { operator: readAuthor(values.as), source: 'command' },
    readsPassword,
    asJson: values.json ?? false,
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
