import { scryptSync } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'
import { createOperatorStore } from '#shared/ledger/operators/operator-store.ts'
import type { Role } from '#shared/operators/operator-account.ts'
import { serviceUrlOf } from '../../../infra/sandbox/postgres/service-connection.ts'
import { buildConsole } from '../../../operator/app.ts'
import { readConfig } from '../../../operator/config.ts'
import { createDependencies } from '../../../operator/dependencies.ts'
import { startTestDevnet, type TestDevnet } from '../chain/devnet.ts'
import { createTestLedger, type TestLedger } from '../ledger/test-ledger.ts'
import { PATIENT_SETTINGS } from '../patience.ts'
import { type ConsoleVisitor, visitConsole } from './console-visitor.ts'

/** The password of every account of a test. */
export const TEST_PASSWORD = 'correct horse battery staple'

/** The whole console in this process, over a ledger of its own. */
export interface TestConsole {
  readonly app: FastifyInstance
  readonly ledger: TestLedger
  readonly devnet: TestDevnet
  /** What Prometheus would read. */
  readonly metrics: Registry
  /** Returns a browser in which the account `reader` or `actor` is signed in. */
  signIn(role: Role): Promise<ConsoleVisitor>
  /** Adds another account that may act, and returns a browser in which it is signed in. */
  addActor(name: string): Promise<ConsoleVisitor>
  close(): Promise<void>
}

const NAMES: Readonly<Record<Role, string>> = { read: 'reader', act: 'actor' }

/**
 * Composes the console as its process does, with an account of each role. `through` returns the connection string that it
 * uses in place of the ledger's, such as one of a proxy; `settings` are those that differ.
 */
export async function startTestConsole(
  through: (url: string) => Promise<string> = (url) => Promise.resolve(url),
  settings: Readonly<Record<string, string>> = {},
): Promise<TestConsole> {
  const [ledger, devnet] = await Promise.all([createTestLedger(), startTestDevnet()])
  const operators = createOperatorStore(ledger.pool)
  const author = { operator: 'test', source: 'command' } as const
  for (const role of ['read', 'act'] as const)
    await operators.addAccount({ name: NAMES[role], role, passwordHash: quickHash(TEST_PASSWORD) }, author)
  const dependencies = await createDependencies(
    readConfig({
      ...PATIENT_SETTINGS,
      DATABASE_URL: await through(serviceUrlOf(ledger.url)),
      RPC_URL: devnet.rpcUrl,
      FACILITATOR_ADDRESSES: devnet.accounts.settlement.address,
      LOG_LEVEL: 'silent',
      ...settings,
    }),
  )
  const app = await buildConsole(dependencies)
  return {
    app,
    ledger,
    devnet,
    metrics: dependencies.metrics,
    signIn: async (role) => {
      const visitor = visitConsole(app)
      await visitor.signIn(NAMES[role], TEST_PASSWORD)
      return visitor
    },
    addActor: async (name) => {
      await operators.addAccount({ name, role: 'act', passwordHash: quickHash(TEST_PASSWORD) }, author)
      const visitor = visitConsole(app)
      await visitor.signIn(name, TEST_PASSWORD)
      return visitor
    },
    close: async () => {
      await app.close()
      await dependencies.close()
      await Promise.all([ledger.close(), devnet.stop()])
    },
  }
}

/** Returns a hash as the console stores it, with parameters that cost nothing. */
function quickHash(password: string): string {
  const digest = scryptSync(password, 'salt', 32, { N: 2 ** 4, r: 1, p: 1 })
  return ['scrypt', 4, 1, 1, Buffer.from('salt').toString('base64url'), digest.toString('base64url')].join('$')
}
