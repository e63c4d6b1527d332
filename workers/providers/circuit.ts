import type { ProviderFailure } from './provider.ts'

export interface CircuitDependencies {
  readonly now: () => Date
  /** Definite failures that open a circuit, when they are at least half of the latest calls. */
  readonly failuresToOpen?: number
  /** Votes of payers for an ambiguous failure that open a circuit, when they are at least half of the latest votes. */
  readonly payersToOpen?: number
  /** How long a circuit stays open before one call may probe the deployment. */
  readonly pauseMs?: number
}

/** On whose behalf a call is made. */
export interface Caller {
  readonly payer: string
  /** Whether a charge of theirs was ever settled. */
  readonly hasPaid: boolean
}

export interface Circuit {
  /** Makes the call. Returns `provider_unavailable` without calling while the circuit is open. */
  run<Outcome extends { readonly outcome: string }>(
    call: () => Promise<Outcome>,
    caller: Caller,
  ): Promise<Outcome | ProviderFailure>
  /** Returns the rest of the pause; 0 when a call may start or probe. */
  waitMs(): number
  state(): 'closed' | 'open' | 'half_open'
}

/**
 * Creates the circuit of one deployment. It opens when the deployment is failing. After the pause the next call is its
 * probe: a failure opens it again, and anything else closes it. Calls that were permitted meanwhile wait for the probe.
 */
export function createCircuit(dependencies: CircuitDependencies): Circuit {
  const { now, pauseMs = 15_000 } = dependencies
  const health = createHealth(dependencies)
  let isClosed = true
  let probesFromMs = 0
  let probe: PromiseWithResolvers<void> | null = null
  const waitMs = () => (isClosed || probe !== null ? 0 : Math.max(0, probesFromMs - now().getTime()))
  const decide = (closes: boolean) => {
    isClosed = closes
    probe?.resolve()
    probe = null
    if (closes) return
    probesFromMs = now().getTime() + pauseMs
    health.forget()
  }
  const run: Circuit['run'] = async (call, caller) => {
    if (probe !== null) {
      await probe.promise
      return await run(call, caller)
    }
    // The call was permitted before the circuit opened, or before another one became its probe and failed.
    if (waitMs() > 0) return CIRCUIT_OPENED
    const own = isClosed ? null : Promise.withResolvers<void>()
    probe = own
    let isFailed = false
    try {
      const outcome = await call()
      health.record(outcome, caller)
      isFailed = isFailureOfDeployment(outcome)
      return outcome
    } finally {
      if (own !== null) {
        // A call from before may have opened the circuit again.
        if (probe === own) decide(!isFailed)
      } else if (isFailed && (isClosed || probe !== null) && health.isFailing()) decide(false)
    }
  }
  return {
    waitMs,
    run,
    state: () => {
      if (isClosed) return 'closed'
      return waitMs() > 0 ? 'open' : 'half_open'
    },
  }
}

const CIRCUIT_OPENED: ProviderFailure = {
  outcome: 'failed',
  certainty: 'definite',
  code: 'provider_unavailable',
  reason: 'not sent: the deployment’s circuit has just opened',
}

/** The number of latest calls among which the share of definite failures counts. */
const RECENT_CALLS = 20

/** How long a call counts. */
const WINDOW_MS = 120_000

/** The share of calls, or of payers, whose failures open a circuit. */
const FAILING_SHARE = 0.5

interface Sample {
  readonly failed: boolean
  readonly atMs: number
}

/** The vote that all payers share who have never paid: a wallet costs nothing. */
const NEVER_PAID = 'never paid'

/**
 * Keeps two tallies of the latest outcomes of a deployment, because callers can provoke one kind of failure and not the
 * other. A definite failure (a refused connection, a rejected key) comes from the deployment and counts by calls. An
 * ambiguous one (a timeout, a server error) may be provoked by a request, so each payer has one vote, the outcome of
 * their latest call: however many calls one payer makes, they are never more than one of several. Those who have never
 * paid share one vote. A model that was shut down needs no second call to be believed.
 */
function createHealth({ now, failuresToOpen = 5, payersToOpen = 3 }: CircuitDependencies) {
  let calls: Sample[] = []
  /** In the order of the latest calls. */
  const votes = new Map<string, Sample>()
  /** Whether the latest call found that the upstream model was shut down. */
  let isGone = false

  const forgetOld = () => {
    const sinceMs = now().getTime() - WINDOW_MS
    calls = calls.filter(({ atMs }) => atMs > sinceMs)
    for (const [payer, { atMs }] of votes) {
      if (atMs > sinceMs) break
      votes.delete(payer)
    }
  }
  return {
    record(outcome: unknown, { payer, hasPaid }: Caller) {
      if (isFailure(outcome) && outcome.concerns === 'request') return
      forgetOld()
      const failed = isFailureOfDeployment(outcome)
      const ambiguous = failed && isFailure(outcome) && outcome.certainty === 'ambiguous'
      isGone = isFailure(outcome) && outcome.isGone === true
      const sample = { failed, atMs: now().getTime() }
      if (!ambiguous) calls = [...calls, sample].slice(-RECENT_CALLS)
      if (failed && !ambiguous) return
      const voter = hasPaid ? payer : NEVER_PAID
      votes.delete(voter)
      votes.set(voter, sample)
    },
    isFailing: () =>
      isGone || isFailingShare(calls, failuresToOpen) || isFailingShare([...votes.values()], payersToOpen),
    forget() {
      isGone = false
      calls = []
      votes.clear()
    },
  }
}

function isFailingShare(samples: readonly Sample[], minimum: number): boolean {
  const failures = samples.filter(({ failed }) => failed).length
  return failures >= minimum && failures >= samples.length * FAILING_SHARE
}

/**
 * Returns whether a failure counts: rejected input, empty output, unsupported requests and time limits that the request
 * exceeded come from a deployment that works.
 */
function isFailureOfDeployment(outcome: unknown): boolean {
  if (!isFailure(outcome) || outcome.concerns === 'request') return false
  return outcome.code === 'provider_unavailable' || outcome.code === 'provider_outcome_unknown'
}

export function isFailure(outcome: unknown): outcome is ProviderFailure {
  return typeof outcome === 'object' && outcome !== null && 'outcome' in outcome && outcome.outcome === 'failed'
}
