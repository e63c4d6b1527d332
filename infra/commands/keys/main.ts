import { createKeyRotationStore } from '#shared/ledger/operators/key-rotations.ts'
import type { Pool } from '#shared/ledger/pool.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'
import { namingWaits, Refusal, type Settings, toJson, UsageError } from '../command-line.ts'
import { beginRotation } from './begin-rotation.ts'
import { HELP, type KeysCommand, type KeysOptions, readOptions } from './options.ts'
import { planRotation } from './plan-rotation.ts'
import { readFacts } from './read-facts.ts'
import { describeStatus, renderStatus, renderSteps } from './render-status.ts'

const [DONE, LEFT, FAILED] = [0, 1, 2]

/** Runs the command and returns its exit code. */
export async function main(commandLine: readonly string[], settings: Settings): Promise<number> {
  try {
    const options = readOptions(commandLine, settings)
    if (options !== null) {
      const connection = { connectionString: options.databaseUrl, applicationName: 'farebox keys' }
      return await namingWaits(() => withConnection(connection, (pool) => run(pool, options, options.request)))
    }
    console.log(HELP)
    return DONE
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    console.error(error instanceof UsageError ? `${message}\n\n${HELP}` : message)
    return error instanceof Refusal ? LEFT : FAILED
  }
}

async function run(pool: Pool, options: KeysOptions, request: KeysCommand): Promise<number> {
  const facts = await readFacts(pool, options, new Date())
  if (request.command === 'rotate') {
    const { rotation, newKey } = beginRotation(request, facts)
    await createKeyRotationStore(pool).startRotation(rotation, options.author)
    const steps = planRotation({ ...rotation, startedAt: facts.now, operator: options.author.operator }, facts)
    const { kind, oldKey } = rotation
    if (options.asJson) console.log(toJson({ kind, oldKey, newKey: newKey.identity, value: newKey.value, steps }))
    else
      console.log(
        [
          `${kind}: ${oldKey} is replaced by ${newKey.identity}.`,
          ...(kind === 'pay-to' ? [] : ['', `New value, shown only now: ${newKey.value}`]),
          '',
          ...renderSteps(steps),
          '',
          'Run "npm run keys -- status" after each step.',
        ].join('\n'),
      )
    return DONE
  }
  const status = describeStatus(facts)
  console.log(options.asJson ? toJson(status) : renderStatus(status))
  const isLeft = status.problems.length > 0 || status.rotations.some(({ isFinished }) => !isFinished)
  return isLeft ? LEFT : DONE
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2), process.env)
