import { expect, test } from 'vitest'
import { createFailover } from '../../../workers/job/failover.ts'
import {
  emptyOutput,
  gone,
  misconfigured,
  rejected,
  rejectedByDeployment,
  unavailable,
  unknownOutcome,
} from '../../../workers/providers/failures.ts'
import type { ProviderFailure } from '../../../workers/providers/provider.ts'
import { unserviceable } from '../../../workers/providers/unserviceable.ts'

const FAILURES = {
  gone: gone('x'),
  down: unavailable('x'),
  unsupported: unserviceable('x'),
  misconfigured: misconfigured('x'),
  'rejected here': rejectedByDeployment('x'),
  'rejected anywhere': rejected('x'),
  empty: emptyOutput('x'),
  unknown: unknownOutcome('x'),
} as const satisfies Record<string, ProviderFailure>

type Name = keyof typeof FAILURES

/** Runs the failures of a model's deployments in order. Returns how many were called, and the final code. */
function run(deployments: number, names: readonly Name[]): [calls: number, code: string] {
  const failover = createFailover(deployments)
  for (const [index, name] of names.entries()) {
    const failure = FAILURES[name]
    if (!failover.mayContinueAfter(failure)) return [index + 1, failover.codeAfter(failure)]
  }
  return [names.length, failover.codeAfter(FAILURES[names.at(-1) ?? 'unknown'])]
}

test.each<[deployments: number, failures: readonly Name[], calls: number, code: string]>([
  [1, ['down'], 1, 'provider_unavailable'],
  [2, ['gone', 'down'], 2, 'provider_unavailable'],
  [1, ['unsupported'], 1, 'request_unsupported'],
  [1, ['misconfigured'], 1, 'provider_unavailable'],
  [2, ['unsupported', 'misconfigured'], 2, 'provider_unavailable'],
  [2, ['misconfigured', 'unsupported'], 2, 'provider_unavailable'],
  [2, ['unsupported', 'down'], 2, 'provider_unavailable'],
  // Another deployment supports the request perhaps, but may not be called at the moment.
  [2, ['unsupported'], 1, 'provider_unavailable'],
  [2, ['rejected here'], 1, 'provider_unavailable'],
  [1, ['rejected here'], 1, 'provider_rejected'],
  [2, ['rejected here', 'rejected here'], 2, 'provider_rejected'],
  [3, ['rejected here', 'rejected here', 'down'], 2, 'provider_rejected'],
  [3, ['rejected here', 'unsupported', 'rejected here'], 3, 'provider_rejected'],
  [2, ['rejected here', 'unsupported'], 2, 'provider_rejected'],
  [2, ['rejected here', 'down'], 2, 'provider_unavailable'],
  [2, ['rejected here', 'rejected anywhere'], 2, 'provider_rejected'],
  [2, ['rejected anywhere', 'down'], 1, 'provider_rejected'],
  [3, ['rejected here', 'empty', 'down'], 2, 'provider_empty_output'],
  [3, ['unsupported', 'unknown', 'down'], 2, 'provider_outcome_unknown'],
])('of %i deployments, %j calls %i and ends with %s', (deployments, failures, calls, code) => {
  expect(run(deployments, failures)).toEqual([calls, code])
})
