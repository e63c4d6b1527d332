import { createMain } from '../command-line.ts'
import { checkArchive } from './check-archive.ts'
import { checkChain, checkFees, checkRecipients } from './check-chain.ts'
import { checkPrices } from './check-prices.ts'
import { checkProviders } from './check-providers.ts'
import { checkCalls, checkHeldCall } from './check-public-address.ts'
import { checkScreening } from './check-screening.ts'
import { checkService, sendTestAlert } from './check-service.ts'
import { checkSettings, type Environment, readEnvironment } from './check-settings.ts'
import { checkSettlementContracts } from './check-settlement-contracts.ts'
import {
  checkCommonStore,
  checkDatabase,
  checkDatabaseRole,
  checkDatabaseServer,
  checkObjectStore,
  checkQueue,
} from './check-stores.ts'
import { checkWalletCode } from './check-wallet-code.ts'
import { type Check, printCheck } from './check.ts'
import { makePaidCalls } from './make-paid-calls.ts'
import { addOptions, type PreflightOptions, readOptions } from './options.ts'

const NAME_WIDTH = 26

/** Runs the command and returns its exit code. */
export const main = createMain('preflight', (command, run) =>
  addOptions(command).action(run(async (flags, settings) => await preflight(readOptions(flags), settings))),
)

async function preflight(options: PreflightOptions, environment: Environment): Promise<number> {
  const report = options.asJson ? () => undefined : (check: Check) => printCheck(check, NAME_WIDTH)
  const api = await readEnvironment(options.envFiles, environment)
  const { workerEnvFiles } = options
  const worker = workerEnvFiles.length === 0 ? api : await readEnvironment(workerEnvFiles, environment)
  const checks = await runChecks(options, { api, worker }, report)
  const failures = checks.filter(({ outcome }) => outcome === 'failed').length
  if (options.asJson) console.log(JSON.stringify({ outcome: failures === 0 ? 'passed' : 'failed', checks }, null, 2))
  else
    console.log(failures === 0 ? '\nEverything checked is ready.' : `\n${failures} of ${checks.length} checks failed.`)
  return failures === 0 ? 0 : 1
}

/** Runs every check that the settings allow and reports each when it is complete. */
async function runChecks(
  options: PreflightOptions,
  environments: Readonly<Record<'api' | 'worker', Environment>>,
  report: (check: Check) => void,
): Promise<readonly Check[]> {
  const checks: Check[] = []
  const add = (completed: readonly Check[]) => {
    checks.push(...completed)
    completed.forEach(report)
  }
  const { settings, checks: settingsChecks } = checkSettings(options, environments)
  add(settingsChecks)
  const { api, worker } = settings
  const common = api ?? worker
  if (!common) return checks
  // First: without the contracts of the payments all else is in vain.
  add(await checkChain(common, worker, options.expectedCode))
  add([await checkDatabase(common), await checkDatabaseRole(common), await checkQueue(common)])
  add(
    await checkDatabaseServer(
      common,
      [api, worker].filter((config) => config !== null),
    ),
  )
  if (api) add([await checkObjectStore(api, 'api'), await checkArchive(api)])
  if (worker) add([await checkObjectStore(worker, 'worker')])
  if (api && worker) add(await checkCommonStore(api, worker))
  if (api) add([...(await checkRecipients(api)), ...(await checkScreening(api))])
  // A remote facilitator pays its own fees.
  if (api && api.FACILITATOR_URL === undefined) add([await checkFees(api)])
  add(await checkSettlementContracts(settings, options.expectedCode))
  add(await checkWalletCode(common))
  if (worker) add(await checkProviders(worker))
  if (api) add([await checkPrices(api)])
  if (api) {
    add(await checkService(api.PUBLIC_BASE_URL))
    add(await checkCalls(api))
    if (options.makesHeldCall) add([await checkHeldCall(api)])
  }
  if (options.alertUrl !== null) add([await sendTestAlert(options.alertUrl)])
  if (options.makesPaidCalls) {
    const { PUBLIC_BASE_URL: baseUrl } = common
    const [rpcUrl = ''] = common.RPC_URL
    add(await makePaidCalls({ baseUrl, rpcUrl, spendAtMostUsd: options.spendAtMostUsd }, environments.api))
  }
  return checks
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2), process.env)
