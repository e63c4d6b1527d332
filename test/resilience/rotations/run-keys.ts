import { z } from 'zod'
import { createPool } from '#shared/ledger/pool.ts'
import type { KeyKind } from '#shared/operators/key-rotation.ts'
import { readFacts } from '../../../infra/commands/keys/read-facts.ts'
import { describeStatus, type KeyStatus } from '../../../infra/commands/keys/render-status.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { runCommand } from '../../support/processes/run-program.ts'
import type { CampaignStack } from '../stack/stack.ts'
import { untilReached } from '../stack/until-reached.ts'

const begunSchema = z.object({ oldKey: z.string(), newKey: z.string(), value: z.string() })

type BegunKey = z.infer<typeof begunSchema>

/** Runs operators' commands against the stack, as processes. */
export interface OperatorCommands {
  run(command: 'catalog' | 'deployments', ...args: readonly string[]): Promise<void>
  rotate(kind: KeyKind, ...args: readonly string[]): Promise<BegunKey>
  /** Judges as `npm run keys -- status` does, in this process, which saves the start of another each time. */
  status(): Promise<KeyStatus>
  /** Waits until the command reports these first steps of a rotation as done, and returns whether a later one is open. */
  untilStepsDone(kind: KeyKind, steps: number): Promise<boolean>
  close(): Promise<void>
}

export function createOperatorCommands(
  { info }: Pick<CampaignStack, 'info'>,
  challengeLifetimeSeconds: number,
): OperatorCommands {
  const settings = {
    DATABASE_URL: info.databaseUrl,
    RPC_URL: info.rpcUrl,
    CHALLENGE_LIFETIME_SECONDS: String(challengeLifetimeSeconds),
  }
  const call = async (command: string, args: readonly string[]) => {
    const { exitCode, output, errors } = await runCommand(`infra/commands/${command}/main.ts`, args, settings)
    if (exitCode !== 0) throw new Error(`${command} ${args.join(' ')}: exit ${exitCode}: ${errors}${output}`)
    return output
  }
  const pool = createPool({
    connectionString: info.databaseUrl,
    maximumConnections: 1,
    applicationName: 'farebox campaign',
    onError: () => undefined,
  })
  const read = { rpcUrls: [info.rpcUrl], rpcTimeoutMs: PATIENCE_MS, challengeLifetimeSeconds }
  const status = async () => describeStatus(await readFacts(pool, read, new Date()))
  const stepsOf = async (kind: KeyKind) =>
    (await status()).rotations.find((rotation) => rotation.kind === kind)?.steps ?? []
  return {
    run: async (command, ...args) => void (await call(command, [...args, '--reason', 'a campaign'])),
    rotate: async (kind, ...args) =>
      begunSchema.parse(JSON.parse(await call('keys', ['rotate', kind, ...args, '--reason', 'a campaign', '--json']))),
    status,
    close: () => pool.end(),
    untilStepsDone: async (kind, count) => {
      let steps: Awaited<ReturnType<typeof stepsOf>> = []
      await untilReached(`${count} steps of ${kind} are done`, async () => {
        steps = await stepsOf(kind)
        return steps.slice(0, count).every(({ isDone }) => isDone)
      })
      return steps.slice(count).some(({ isDone }) => !isDone)
    },
  }
}
