import { startBench } from './bench.ts'
import { type ScenarioName, scenarios } from './scenarios.ts'

/**
 * Runs one scenario against the repository that contains this file, which may be a mutated copy, and prints the
 * checker's verdict as one line of JSON. Arguments: the scenario's name, the time limit of every wait in milliseconds,
 * and SQL statements for the fresh database.
 */
const [, , name, patienceMs, ...statements] = process.argv
const scenario = scenarios[name as ScenarioName]
if (!scenario) throw new Error(`unknown scenario: ${name}`)
const bench = await startBench({
  statements,
  patienceMs: Number(patienceMs),
  settlementContract: !name?.endsWith('_directly'),
})
try {
  await scenario(bench)
  console.log(JSON.stringify(await bench.judge()))
} finally {
  await bench.stop()
}
