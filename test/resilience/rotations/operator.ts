import { readProcesses } from '#shared/ledger/configuration/process-report-store.ts'
import { createPool } from '#shared/ledger/pool.ts'
import { readKeyUse } from '#shared/ledger/reports/key-use.ts'
import { findKeyProblems } from '#shared/operators/key-problems.ts'
import { runCommand } from '../../support/processes/run-program.ts'
import type { CampaignStack } from '../stack/stack.ts'
import { untilReached } from '../stack/until-reached.ts'

/** What an operator does with the stack: runs commands as processes, and reads what the console shows. */
export interface Operator {
  run(command: 'catalog' | 'deployments', ...args: readonly string[]): Promise<void>
  /** Returns what the page of processes says about keys. */
  keyProblems(): Promise<readonly string[]>
  /** Waits until no unfinished call and no transaction needs a settlement key. */
  untilUnneeded(facilitator: string): Promise<void>
  close(): Promise<void>
}

export function createOperator({ info }: Pick<CampaignStack, 'info'>): Operator {
  const pool = createPool({
    connectionString: info.databaseUrl,
    maximumConnections: 1,
    applicationName: 'farebox campaign',
    onError: () => undefined,
  })
  return {
    run: async (command, ...given) => {
      const args = [...given, '--reason', 'a campaign']
      const settings = { DATABASE_URL: info.databaseUrl }
      const { exitCode, output, errors } = await runCommand(`infra/commands/${command}/main.ts`, args, settings)
      if (exitCode !== 0) throw new Error(`${command} ${args.join(' ')}: exit ${exitCode}: ${errors}${output}`)
    },
    keyProblems: async () => {
      const running = (await readProcesses(pool)).filter(({ isRunning }) => isRunning)
      return findKeyProblems(running, await readKeyUse(pool))
    },
    untilUnneeded: async (address) => {
      await untilReached(`nothing needs ${address}`, async () =>
        (await readKeyUse(pool)).every(({ facilitator }) => facilitator !== address),
      )
    },
    close: () => pool.end(),
  }
}
