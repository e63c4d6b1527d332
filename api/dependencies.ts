import { readFile } from 'node:fs/promises'
import type { Registry } from 'prom-client'
import { type OpenedJobQueue, openJobQueue } from '#shared/adapters/bullmq/job-queue.ts'
import { createAuthorizationVerifier } from '#shared/adapters/chain/authorization-verifier.ts'
import { createBalanceReader } from '#shared/adapters/chain/balance-reader.ts'
import { createChainClock } from '#shared/adapters/chain/chain-clock.ts'
import { createChainClient } from '#shared/adapters/chain/client.ts'
import { CHAIN_ID, PERMIT2_ADDRESS, UPTO_PROXY_ADDRESS, USDC_ADDRESS } from '#shared/adapters/chain/contracts.ts'
import { createFeeEstimator } from '#shared/adapters/chain/fee-estimator.ts'
import { createGasReader } from '#shared/adapters/chain/gas-reader.ts'
import { createPayerFundsReader } from '#shared/adapters/chain/payer-funds.ts'
import { openObjectStore } from '#shared/adapters/object-store.ts'
import { openTracer } from '#shared/adapters/opentelemetry/open-tracer.ts'
import { checkedNow, createLedgerCheck } from '#shared/adapters/postgres/check-schema.ts'
import { isConnectionFailure } from '#shared/adapters/postgres/connection-failure.ts'
import { listenForOutcomes } from '#shared/adapters/postgres/outcome-listener.ts'
import { createPool } from '#shared/adapters/postgres/pool.ts'
import { createAdmissionStore } from '#shared/adapters/postgres/stores.ts'
import { openSharedAllowances } from '#shared/adapters/redis/shared-allowances.ts'
import type { RemoteFacilitatorOptions } from '#shared/adapters/remote-facilitator/http-client.ts'
import { readSupportedFacilitators } from '#shared/adapters/remote-facilitator/read-supported.ts'
import { createRemoteVerifier } from '#shared/adapters/remote-facilitator/verifier.ts'
import { type Catalog, findModel } from '#shared/catalog/catalog.ts'
import { overrideCatalog } from '#shared/catalog/catalog-file.ts'
import { parseDeploymentsFile, servedModels } from '#shared/catalog/deployments-file.ts'
import { availableCatalog, publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { createStatementSigner } from '#shared/payment/statement-signer.ts'
import { createLogger } from '#shared/runtime/logger.ts'
import { addPoolMetrics, createProcessMetrics } from '#shared/runtime/process-metrics.ts'
import { underSetting } from '#shared/runtime/start-process.ts'
import { createAdmission } from './admission/admission.ts'
import { createLoadGate, type LoadLimits } from './admission/load-gate.ts'
import { createPayingCheck } from './admission/paying-callers.ts'
import { createQueueAgeReader } from './admission/queue-age.ts'
import type { AppDependencies } from './app.ts'
import type { ApiConfig } from './config.ts'
import { addDecoderMetrics, addLoadMetrics, addRequestMetrics } from './metrics.ts'
import { createOutcomeAwaiter } from './paid-request/job/await-outcome.ts'
import { createRateLimiter } from './plugins/rate-limits.ts'
import { createFfmpegDecoder } from './request/audio/decode-with-ffmpeg.ts'
import { findFfmpeg } from './request/audio/find-ffmpeg.ts'
import { createMp3Inspector } from './request/audio/inspect-mp3.ts'
import { createInspectionCache } from './request/audio/inspection-cache.ts'
import { createRequestPreparer } from './request/worker-threads/request-preparer.ts'
import { OPERATOR_BOARD_PATH } from './routes/operator-board.ts'

const NETWORK = `eip155:${CHAIN_ID}`
/** The net under NOTIFY: how late a caller is at most when a notification was lost. */
const OUTCOME_POLL_MS = 1000
/** Node's fetch gives up after 300 s without a byte; ten of these may get lost. */
const INTERIM_ANSWER_SECONDS = 30
const INSPECTIONS_REMEMBERED = 10_000
/** An hour of audio decodes in about 3 s of one core; a machine that is this slow is not fit to inspect. */
const DECODE_TIME_LIMIT_MS = 60_000

/** A block is seconds old when it is seen; more is the machine's clock, which deadlines are judged by as well. */
const LARGEST_SKEW_MS = 60_000

const now = () => new Date()

/** All but what only the running process knows. `close` ends every connection and child that was opened here. */
export interface ApiDependencies extends Omit<AppDependencies, 'draining'> {
  /** What this process shows of itself. */
  readonly metrics: Registry
  close(): Promise<void>
}

/** Composes the API process. */
export async function createDependencies(config: ApiConfig, stopping: AbortSignal): Promise<ApiDependencies> {
  const { published, available } = await readCatalogs(config)
  const ffmpegPath = await findFfmpeg({ configuredPath: config.FFMPEG_PATH, searchPath: config.PATH })
  const chain = createChainClient(config.RPC_URL, config.RPC_TIMEOUT_MS)
  const chainClock = createChainClock(chain, now)
  const gas = createGasReader(chain, createFeeEstimator(chain))
  const own = createAuthorizationVerifier(chain, CHAIN_ID)
  const remote = remoteFacilitator(config)
  const facilitators = await readFacilitators(config, remote)
  const metrics = createProcessMetrics()
  const tracer = await openTracer(config, 'farebox-api', metrics)
  const presentRequest = () => tracer.present()
  const logger = createLogger({ process: 'api', level: config.LOG_LEVEL, presentRequest })
  const pool = createPool({
    connectionString: config.DATABASE_URL,
    maximumConnections: config.DATABASE_CONNECTIONS,
    applicationName: 'farebox api',
    onError: (error) => logger.warn('an idle database connection was lost', { error }),
  })
  addPoolMetrics(metrics, pool)
  const ledger = createLedgerCheck({ pool, databaseUrl: config.DATABASE_URL, now })
  // Served from the start, but not ready until the database could be checked.
  await checkedNow(ledger, (error) => logger.warn('DATABASE_URL: the database cannot be reached yet', { error }))
  const { objects, links, close: closeObjects } = await openObjectStore(config)
  const queue = await openJobQueue(config, (error) => logger.warn('the queue reports an error', { error }))
  const store = createAdmissionStore(pool)
  const mp3Inspector = createInspector(config, ffmpegPath, stopping, (reason) =>
    logger.error('audio inspection is unavailable', { reason }),
  )
  const isPaying = createPayingCheck(config.CHALLENGE_SECRET)
  const gate = createLoadGate(loadLimits(config))
  addLoadMetrics(metrics, gate)
  const admission = createAdmission({
    gate,
    isPaying,
    queueAge: createQueueAgeReader(store, logger, () => performance.now()),
    mp3Inspector,
    store,
  })
  const allowances = openSharedAllowances(config)
  const preparer = createRequestPreparer(available, config.PREPARATION_THREADS)
  const outcomes = createOutcomeAwaiter({ store, logger }, OUTCOME_POLL_MS)
  const listener = listenForOutcomes({
    connectionString: config.DATABASE_URL,
    onOutcome: (jobId) => outcomes.wake(jobId),
    onError: (error) => logger.warn('the outcome listener lost its connection', { error }),
  })
  addDecoderMetrics(metrics, mp3Inspector)
  return {
    catalog: available,
    preparer,
    publishedCatalog: published,
    contactEmail: config.CONTACT_EMAIL,
    trustedProxies: config.TRUSTED_PROXIES,
    terms: {
      network: NETWORK,
      asset: USDC_ADDRESS,
      spender: UPTO_PROXY_ADDRESS,
      permit2: PERMIT2_ADDRESS,
      payTo: config.PAY_TO,
      facilitators,
      maxTimeoutSeconds: config.AUTHORIZATION_LIFETIME_SECONDS,
      minimumRemainingSeconds: config.MINIMUM_AUTHORIZATION_SECONDS,
      challengeLifetimeSeconds: config.CHALLENGE_LIFETIME_SECONDS,
    },
    challengeSecret: config.CHALLENGE_SECRET,
    receiptSecrets: config.RECEIPT_SECRETS,
    signer: createStatementSigner(config.PUBLIC_BASE_URL, config.RECEIPT_SIGNING_KEY),
    publicBaseUrl: config.PUBLIC_BASE_URL,
    mp3Inspector,
    metrics,
    requestMetrics: addRequestMetrics(metrics),
    tracer,
    store,
    queue,
    uploads: objects,
    media: objects,
    mediaLinks: config.MEDIA_DELIVERY === 'redirect' ? links : null,
    verifier: remote ? createRemoteVerifier(remote, own) : own,
    chainClock,
    payerFunds: createPayerFundsReader(chain, () => performance.now()),
    maximumOpenExposure: config.MAXIMUM_OPEN_EXPOSURE_USDC,
    balances: createBalanceReader(chain),
    operatorBoard: await createOperatorBoard(config, queue),
    admission,
    limitRate: createRateLimiter({
      requestsPerMinute: config.REQUESTS_PER_MINUTE,
      paidRequestsPerMinute: config.PAID_REQUESTS_PER_MINUTE,
      isPaying,
      shared: allowances,
      logger,
    }),
    readinessChecks: {
      database: async () => {
        await pool.query('SELECT 1')
        await ledger.schema()
      },
      clock: () => ledger.clock(),
      queue: () => queue.check(),
      chain: async () => {
        if ((await chain.getChainId()) !== CHAIN_ID) throw new Error('the RPC serves another chain')
      },
      ...(remote && { facilitator: async () => void (await readSupportedFacilitators(remote, NETWORK)) }),
      audio_inspection: async () => {
        if (ffmpegPath === undefined) throw new Error('no ffmpeg was found')
      },
    },
    readinessWarnings: {
      settlement_gas_low: async () => {
        // A remote facilitator watches its own.
        const ours = config.FACILITATOR_ADDRESSES ?? []
        const read = await Promise.all(ours.map((facilitator) => gas.readGas(facilitator)))
        return read.some(({ settlementsLeft }) => settlementsLeft < config.GAS_WARNING_SETTLEMENTS)
      },
      clock_skew: async () => Math.abs((await chainClock.skewMs()) ?? 0) > LARGEST_SKEW_MS,
    },
    outcomes,
    logger,
    now,
    isDependencyFailure: isConnectionFailure,
    holdMs: config.HOLD_SECONDS * 1000,
    interimAnswerMs: (config.INTERIM_ANSWER_SECONDS ?? defaultInterimSeconds(config)) * 1000,
    stopping,
    close: async () => {
      outcomes.close()
      await Promise.allSettled([listener.close(), queue.close(), preparer.close()])
      await pool.end()
      await tracer.close()
      closeObjects()
      allowances?.close()
    },
  }
}

async function createOperatorBoard({ OPERATOR_TOKEN: token }: ApiConfig, queue: OpenedJobQueue) {
  if (token === undefined) return null
  // Most processes show no board, and need not load it.
  const { createQueueBoard } = await import('#shared/adapters/bullmq/queue-board.ts')
  return { token, pages: createQueueBoard(queue, OPERATOR_BOARD_PATH) }
}

/** What stands between us and a caller may not pass interim answers on as what they are. */
function defaultInterimSeconds({ TRUSTED_PROXIES: proxies }: ApiConfig): number {
  return proxies === undefined ? INTERIM_ANSWER_SECONDS : 0
}

function loadLimits(config: ApiConfig): LoadLimits {
  return {
    bodyBytes: config.MAXIMUM_BODY_MEGABYTES * 1024 * 1024,
    heldConnections: config.MAXIMUM_HELD_CONNECTIONS,
    queueAgeMs: config.MAXIMUM_QUEUE_AGE_SECONDS * 1000,
  }
}

function remoteFacilitator({ FACILITATOR_URL: url, FACILITATOR_API_KEY: apiKey }: ApiConfig) {
  return url === undefined ? null : { url, apiKey }
}

/** The addresses that challenges name. A remote facilitator's are its own to tell, so nothing starts without it. */
async function readFacilitators(
  { FACILITATOR_ADDRESSES: addresses = [] }: ApiConfig,
  remote: RemoteFacilitatorOptions | null,
): Promise<readonly `0x${string}`[]> {
  return remote ? await underSetting('FACILITATOR_URL', () => readSupportedFacilitators(remote, NETWORK)) : addresses
}

/** What is published, and what of it a deployment serves; only model ids are read of the private file. */
async function readCatalogs(config: ApiConfig): Promise<{ published: Catalog; available: Catalog }> {
  const { CATALOG_FILE: overrides, DEPLOYMENTS_FILE: file } = config
  const published = await underSetting('CATALOG_FILE', async () =>
    overrides === undefined ? publishedCatalog : overrideCatalog(publishedCatalog, await readFile(overrides, 'utf8')),
  )
  const deployments = await underSetting('DEPLOYMENTS_FILE', async () =>
    parseDeploymentsFile(await readFile(file, 'utf8')),
  )
  return { published, available: availableCatalog(published, servedModels(deployments)) }
}

function createInspector(
  config: ApiConfig,
  ffmpegPath: string | undefined,
  signal: AbortSignal,
  onUnavailable: (reason: string) => void,
) {
  // Limits are those of the one transcription model, offered or not: an endpoint without a deployment still answers 400s.
  const model = findModel(publishedCatalog, 'speech_to_text', 'speechvendor/scribe-v2')
  if (!model) throw new Error('the published catalog has no transcription model')
  return createMp3Inspector({
    decode:
      ffmpegPath === undefined ? undefined : createFfmpegDecoder({ ffmpegPath, timeLimitMs: DECODE_TIME_LIMIT_MS }),
    cache: createInspectionCache({
      maximumEntries: INSPECTIONS_REMEMBERED,
      timeToLiveMs: config.CHALLENGE_LIFETIME_SECONDS * 1000,
    }),
    limits: { maximumBytes: model.maximumAudioBytes, maximumDurationMs: model.maximumAudioDurationMs },
    concurrency: config.DECODERS,
    maximumWaiting: config.DECODER_WAITING,
    signal,
    onUnavailable,
  })
}
