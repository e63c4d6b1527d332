import { randomUUID } from 'node:crypto'
import type { Registry } from 'prom-client'
import { openProcess } from '#shared/adapters/process/open-process.ts'
import { createReceiptArchive } from '#shared/archive/receipt-archive.ts'
import { highestPrice } from '#shared/catalog/price-bounds.ts'
import { CHAIN_ID } from '#shared/chain/network/contracts.ts'
import { createAcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import { createInspectionStore } from '#shared/ledger/acceptance/inspection-store.ts'
import { createPermitStore } from '#shared/ledger/allowances/permit-store.ts'
import { createProcessReportStore } from '#shared/ledger/configuration/process-report-store.ts'
import { keyFingerprint, namedFingerprint } from '#shared/operators/key-fingerprint.ts'
import type { ProcessReport } from '#shared/operators/process-report.ts'
import { type ProcessReporting, startReporting } from '#shared/operators/report-process.ts'
import { unchargedBudget } from '#shared/payment/exposure-settings.ts'
import { isConnectionFailure } from '#shared/runtime/connection-failure.ts'
import { addNodeMetrics } from '#shared/runtime/process-metrics.ts'
import { PROGRAM_VERSION } from '#shared/runtime/program-version.ts'
import type { AppDependencies } from './app.ts'
import { composeAdmission, openRateBuckets } from './composition/admission.ts'
import { composeAudioInspection } from './composition/audio-inspection.ts'
import { openCatalogs, readCatalogs } from './composition/catalogs.ts'
import { openOutcomes } from './composition/outcomes.ts'
import { composePayerScreen } from './composition/payer-screen.ts'
import { composePayment } from './composition/payment.ts'
import type { ApiConfig } from './config.ts'
import { connectionLimits } from './limits/connection-limits.ts'
import { createDecodingLimiter } from './limits/rate-limits.ts'
import { createPermitTurns } from './paid-request/accept/permit-turns.ts'
import { createListings } from './paid-request/quote/listing.ts'
import { derived } from './request/live-catalog.ts'
import { createRequestPreparer } from './request/worker-threads/request-preparer.ts'
import { addRequestMetrics } from './telemetry/metrics.ts'

const now = () => new Date()

/** Everything that the API needs except `draining`, which only the running process has. */
export interface ApiDependencies extends Omit<AppDependencies, 'draining'> {
  readonly metrics: Registry
  /** Reports this process to the operators until it is stopped. */
  startReporting(): ProcessReporting
  /** Closes every connection and thread that was opened here. */
  close(): Promise<void>
}

/** Composes the API process. A failure closes what was opened. */
export async function createDependencies(config: ApiConfig, stopping: AbortSignal): Promise<ApiDependencies> {
  const atStart = await readCatalogs(config)
  await using resources = new AsyncDisposableStack()
  const { metrics, tracer, logger, pool, ledgerCheck, objects, links, checkObjects, queue } = await openProcess(
    resources,
    {
      name: 'api',
      settings: config,
      // The API serves without a database, but is not ready.
      waitsForLedger: false,
      now,
    },
  )
  const payment = await composePayment(config, logger, now)
  const archive = createReceiptArchive(objects)
  const limits = { budget: unchargedBudget(config), newPayers: config.NEW_PAYER_DAILY_LOSS_USDC }
  const store = createAcceptanceStore(pool, limits, archive)
  addNodeMetrics(metrics, () => payment.nodes.readStates())
  resources.defer(payment.nodes.watch(CHAIN_ID))
  const rateBuckets = openRateBuckets(config, resources, logger)
  const { mp3Inspector, expectUpload, ...audio } = await composeAudioInspection(config, {
    metrics,
    logger,
    stopping,
    store: createInspectionStore(pool),
    limitDecoding: createDecodingLimiter(rateBuckets, config.UNPAID_AUDIO_MINUTES_PER_MINUTE),
  })
  const { catalogs, isBlocked, watch } = await openCatalogs(atStart, resources, { pool, metrics, logger })
  const payerScreen = await composePayerScreen(config, resources, {
    isBlocked,
    oracle: payment.screeningOracle,
    logger,
  })
  const preparer = createRequestPreparer(catalogs.offered)
  resources.defer(() => preparer.close())
  const admission = composeAdmission(config, resources, {
    metrics,
    rateBuckets,
    logger,
    mp3Inspector,
    expectUpload,
    store,
    ...payment.dependencies,
  })
  const permitStore = createPermitStore(pool)
  const outcomes = openOutcomes(config, resources, { store, logger })
  const permitTurns = createPermitTurns({ store, outcomes, logger })
  const opened = resources.move()
  return {
    ...payment.dependencies,
    ...admission,
    highestPrice: derived(catalogs.offered, highestPrice),
    catalogs,
    contactEmail: config.CONTACT_EMAIL,
    securityContact: config.SECURITY_CONTACT,
    trustedProxies: config.TRUSTED_PROXIES,
    publicBaseUrl: config.PUBLIC_BASE_URL,
    listings: createListings({
      catalog: catalogs.offered,
      publicBaseUrl: config.PUBLIC_BASE_URL,
      newKey: randomUUID,
      takesLastingPermits: config.SETTLEMENT_CONTRACT !== undefined,
    }),
    preparer,
    mp3Inspector,
    store,
    outcomes,
    permitTurns,
    payerScreen,
    permitStore,
    allowances: { ...payment.dependencies, reader: payment.allowanceReader, payerScreen, permitStore, now },
    queue,
    uploads: objects,
    checkObjects,
    media: objects,
    mediaLinks: config.MEDIA_DELIVERY === 'redirect' ? links : null,
    metrics,
    requestMetrics: addRequestMetrics(metrics),
    tracer,
    logger,
    now,
    readinessChecks: {
      required: {
        database: async () => {
          await pool.query('SELECT 1')
          await ledgerCheck.schema()
          if (watch.appliedRevision() === null) throw new Error('the configuration has not been read yet')
        },
        clock: () => ledgerCheck.clock(),
        ...audio.readinessChecks,
      },
      shared: { queue: () => queue.check(), object_store: () => checkObjects(), ...payment.readinessChecks },
    },
    readinessWarnings: payment.readinessWarnings,
    isDependencyFailure: isConnectionFailure,
    connectionLimits: connectionLimits(config.MAXIMUM_HELD_CONNECTIONS),
    holdMs: config.HOLD_SECONDS * 1000,
    stopping,
    startReporting: () =>
      startReporting({
        kind: 'api',
        store: createProcessReportStore(pool),
        describe: () => ({
          version: PROGRAM_VERSION,
          configurationRevision: watch.appliedRevision()?.toString() ?? null,
          catalogVersion: catalogs.offered().version,
          keys: identifyKeys(config),
        }),
        logger,
        now,
      }),
    close: () => opened.disposeAsync(),
  }
}

/** Identifies the keys and addresses of this process, in the order of its settings, without revealing a secret. */
function identifyKeys(config: ApiConfig): ProcessReport['keys'] {
  return {
    PAY_TO: config.PAY_TO,
    SETTLEMENT_CONTRACT: config.SETTLEMENT_CONTRACT === undefined ? [] : [config.SETTLEMENT_CONTRACT],
    FACILITATOR_ADDRESSES: config.FACILITATOR_ADDRESSES ?? [],
    ACCEPTED_FACILITATOR_ADDRESSES: config.ACCEPTED_FACILITATOR_ADDRESSES ?? [],
    CHALLENGE_SECRET: config.CHALLENGE_SECRET.map(keyFingerprint),
    RECEIPT_SECRETS: config.RECEIPT_SECRETS.map(({ id, secret }) => namedFingerprint(id, secret)),
    RECEIPT_SIGNING_KEY: config.RECEIPT_SIGNING_KEY.map(({ id, seed }) => namedFingerprint(id, seed)),
  }
}
