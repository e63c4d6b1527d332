/**
 * A supervisor for a test to kill: starts the programs of `kind`, prints their pids as JSON, then waits.
 */
import { startDevnet } from '../../../infra/sandbox/chain/devnet.ts'
import { startPostgres } from '../../../infra/sandbox/postgres/embedded-postgres.ts'
import { spawnGuarded } from '../../../infra/sandbox/processes/guarded-process.ts'

const [kind = '', directory = ''] = process.argv.slice(2)
const log = () => undefined

if (kind === 'programs') {
  const sleeper = spawnGuarded({ command: 'sleep', args: ['600'] })
  // Writes a file three seconds after SIGTERM, counted in its own steps.
  const loop = 'left=-1; while [ $left -ne 0 ]; do sleep 0.05; left=$((left - 1)); done'
  const stubbornness = `trap left=60 TERM; sleep 600 & echo $!; ${loop}; touch "$1"`
  const grandchild = Promise.withResolvers<number>()
  const stubborn = spawnGuarded({
    command: 'sh',
    args: ['-c', stubbornness, 'stubborn', `${directory}/outlived`],
    log: (line) => grandchild.resolve(Number(line)),
  })
  console.log(JSON.stringify({ pids: [sleeper.pid, stubborn.pid, await grandchild.promise] }))
}
if (kind === 'stack') {
  const postgres = await startPostgres({ dataDirectory: `${directory}/postgres`, log })
  const devnet = await startDevnet({ stateFile: `${directory}/chain.json`, log })
  const { connectionString } = postgres
  console.log(JSON.stringify({ pids: [postgres.pid, devnet.pid], connectionString, rpcUrl: devnet.rpcUrl }))
}
setInterval(() => undefined, 1_000)
