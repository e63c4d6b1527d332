import type { Registry } from 'prom-client'
import type { PublicClient } from 'viem'
import { createRefundReader } from '#shared/chain/reading/refund-reader.ts'
import { createFeeEstimator } from '#shared/chain/settlement/fee-estimator.ts'
import { createGasReader } from '#shared/chain/settlement/gas-reader.ts'
import { createConfigurationReader } from '#shared/ledger/configuration/configuration-reader.ts'
import { createConfigurationStore } from '#shared/ledger/configuration/configuration-store.ts'
import { createControlStore } from '#shared/ledger/configuration/control-store.ts'
import { createProcessReportStore } from '#shared/ledger/configuration/process-report-store.ts'
import { createMachineryStore } from '#shared/ledger/console/machinery-store.ts'
import { createMoneyStore } from '#shared/ledger/console/money-store.ts'
import { createOperatorStore } from '#shared/ledger/operators/operator-store.ts'
import type { Pool } from '#shared/ledger/pool.ts'
import { createReportsStore } from '#shared/ledger/reports/reports-store.ts'
import { createResolutionStore } from '#shared/ledger/resolutions/resolution-store.ts'
import { isConnectionFailure } from '#shared/runtime/connection-failure.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { ConsoleDependencies } from '../app.ts'
import type { OperatorConfig } from '../config.ts'
import { createSessionEvents } from '../sessions/events.ts'

/** What the ports of the pages are made of. */
export interface ConsoleConnections {
  readonly metrics: Registry
  readonly pool: Pool
  readonly chain: PublicClient
  readonly logger: Logger
  readonly now: () => Date
}

/** Composes the ports of all pages; opens nothing. */
export function composeConsole(
  config: OperatorConfig,
  { metrics, pool, chain, logger, now }: ConsoleConnections,
): ConsoleDependencies {
  const operators = createOperatorStore(pool)
  const reports = createReportsStore(pool)
  return {
    logger,
    now,
    isDependencyFailure: isConnectionFailure,
    trustedProxies: config.OPERATOR_TRUSTED_PROXIES,
    hosts: [new URL(config.OPERATOR_BASE_URL).host, ...(config.OPERATOR_HOSTS ?? [])],
    isSecure: config.OPERATOR_BASE_URL.startsWith('https:'),
    accounts: operators,
    sessions: operators,
    actions: operators,
    events: createSessionEvents({ metrics, actions: operators, now }),
    configuration: createConfigurationStore(pool),
    totals: reports,
    reports,
    processes: createProcessReportStore(pool),
    configurationReader: createConfigurationReader(pool),
    controls: createControlStore(pool),
    machinery: createMachineryStore(pool),
    money: createMoneyStore(pool),
    resolutions: createResolutionStore(pool),
    refunds: createRefundReader(chain, config.REFUND_SENDERS ?? []),
    gas: createGasReader(chain, createFeeEstimator(chain)),
    facilitators: config.FACILITATOR_ADDRESSES ?? [],
  }
}
