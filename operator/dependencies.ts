import type { Registry } from 'prom-client'
import { openLedgerProcess } from '#shared/adapters/process/open-process.ts'
import { CHAIN_ID } from '#shared/chain/network/contracts.ts'
import { openChain } from '#shared/chain/network/open-chain.ts'
import { createProcessReportStore } from '#shared/ledger/configuration/process-report-store.ts'
import { createOperatorStore } from '#shared/ledger/operators/operator-store.ts'
import { type ProcessReporting, startReporting } from '#shared/operators/report-process.ts'
import { addNodeMetrics } from '#shared/runtime/process-metrics.ts'
import { PROGRAM_VERSION } from '#shared/runtime/program-version.ts'
import type { ConsoleDependencies } from './app.ts'
import { composeConsole } from './composition/compose-console.ts'
import type { OperatorConfig } from './config.ts'
import { startUpkeep } from './sessions/upkeep.ts'
import { watchAudit } from './sessions/watch-audit.ts'

const now = () => new Date()

/** Everything that the console needs, and how to close it. */
export interface OpenedConsole extends ConsoleDependencies {
  readonly metrics: Registry
  /** Reports this process to the operators until it is stopped. */
  startReporting(): ProcessReporting
  /** Closes every connection that was opened here. */
  close(): Promise<void>
}

/** Opens the console's connections and composes its pages. A failure closes what was opened. */
export async function createDependencies(config: OperatorConfig): Promise<OpenedConsole> {
  const { chain, nodes } = await openChain(config)
  await using resources = new AsyncDisposableStack()
  const { metrics, logger, pool } = await openLedgerProcess(resources, {
    name: 'operator',
    settings: config,
    // The console serves without a database, and says that it is out.
    waitsForLedger: false,
    now,
  })
  addNodeMetrics(metrics, () => nodes.readStates())
  resources.defer(nodes.watch(CHAIN_ID))
  const store = createOperatorStore(pool)
  const audit = watchAudit({ actions: store, metrics, logger })
  resources.defer(() => audit.stop())
  const upkeep = startUpkeep({
    store,
    initialPassword: config.OPERATOR_INITIAL_PASSWORD,
    logger,
  })
  resources.defer(() => upkeep.stop())
  const opened = resources.move()
  return {
    ...composeConsole(config, { metrics, pool, chain, logger, now }),
    metrics,
    startReporting: () =>
      startReporting({
        kind: 'operator',
        store: createProcessReportStore(pool),
        // It applies no configuration: it reads what is in force for each page.
        describe: () => ({ version: PROGRAM_VERSION, configurationRevision: null, keys: {} }),
        logger,
        now,
      }),
    close: () => opened.disposeAsync(),
  }
}
