import { randomBytes } from 'node:crypto'
import { text } from 'node:stream/consumers'
import type { AccountChange, OperatorAccount } from '#shared/adapters/postgres/operators/accounts.ts'
import { createOperatorStore, type OperatorStore } from '#shared/adapters/postgres/operators/operator-store.ts'
import { withConnection } from '#shared/adapters/postgres/with-connection.ts'
import { LONGEST_PASSWORD, SHORTEST_PASSWORD } from '#shared/operators/operator-account.ts'
import { hashPassword } from '#shared/operators/password.ts'
import { Refusal, runCommand } from '../command-line.ts'
import { HELP, type OperatorsOptions, readOptions } from '../operators/read-options.ts'

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
      const outcome = await withAccounts(options, (accounts) => run(accounts, options, input))
      console.log(options.asJson ? JSON.stringify(outcome.json, null, 2) : outcome.sentence)
    },
  )
}

async function withAccounts(
  { databaseUrl }: OperatorsOptions,
  work: (accounts: OperatorStore) => Promise<Outcome>,
): Promise<Outcome> {
  return await withConnection({ connectionString: databaseUrl, applicationName: 'farebox operators' }, (pool) =>
    work(createOperatorStore(pool)),
  )
}

async function run(accounts: OperatorStore, options: OperatorsOptions, input: NodeJS.ReadableStream): Promise<Outcome> {
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

async function choosePassword({ readsPassword }: OperatorsOptions, input: NodeJS.ReadableStream): Promise<Password> {
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
