import { formatEther } from 'viem'
import { KEY_KINDS } from '#shared/operators/key-rotation.ts'
import type { SeenProcess } from '#shared/operators/process-report.ts'
import {
  apisOf,
  contractsOf,
  type KeyFacts,
  type KeySetting,
  keysInUse,
  keysOf,
  settlersOf,
  workersOf,
} from './facts.ts'
import { findProblems } from './find-problems.ts'
import { isSuperseded, planRotation } from './plan-rotation.ts'
import type { Step } from './step.ts'

/** What `status` found. */
export type KeyStatus = ReturnType<typeof describeStatus>

const API_SETTINGS: readonly KeySetting[] = [
  'PAY_TO',
  'FACILITATOR_ADDRESSES',
  'ACCEPTED_FACILITATOR_ADDRESSES',
  'CHALLENGE_SECRET',
  'RECEIPT_SECRETS',
  'RECEIPT_SIGNING_KEY',
]

/**
 * Judges the facts: what is wrong, the values of each setting, each settlement key, and what is left of each rotation.
 */
export function describeStatus(facts: KeyFacts) {
  const [apis, workers, settlers] = [apisOf(facts), workersOf(facts), settlersOf(facts)]
  const held = keysInUse(settlers, 'SETTLEMENT_PRIVATE_KEYS')
  return {
    problems: findProblems(facts),
    settings: [
      ...API_SETTINGS.map((setting) => settingStatus(setting, apis)),
      settingStatus('SETTLEMENT_PRIVATE_KEYS', settlers),
      settingStatus('SETTLEMENT_CONTRACT', [...apis, ...workers]),
      settingStatus('RECEIPT_SECRET_ID', workers),
    ],
    settlementKeys: [...new Set([...held, ...keysInUse(apis, 'FACILITATOR_ADDRESSES')])].map((address) => ({
      address,
      gasWei: facts.gasWei?.[address] ?? null,
      unfinishedCalls: facts.use.jobsByFacilitator[address] ?? 0,
      openTransactions: facts.use.transactionsByFacilitator[address] ?? 0,
      contracts: contractsOf(facts).map((contract) => ({
        contract,
        /** `null` where no node was asked. */
        isListed: facts.listedKeys?.[contract]?.includes(address) ?? null,
      })),
    })),
    rotations: KEY_KINDS.flatMap((kind) =>
      facts.rotations.filter((rotation) => rotation.kind === kind && !isSuperseded(rotation, facts)),
    ).map((rotation) => {
      const steps = planRotation(rotation, facts)
      return { ...rotation, steps, isFinished: steps.every(({ isDone }) => isDone) }
    }),
  }
}

/** Returns the values of a setting, each with the number of processes that have it; secrets by their fingerprint. */
function settingStatus(setting: KeySetting, processes: readonly SeenProcess[]) {
  const groups = Object.groupBy(processes, (process) => keysOf(process, setting).join(','))
  return {
    setting,
    processes: processes.length,
    values: Object.entries(groups).map(([keys, group]) => ({
      keys: keys === '' ? [] : keys.split(','),
      count: group?.length ?? 0,
    })),
  }
}

/** Renders the status as text. */
export function renderStatus({ problems, settings, settlementKeys, rotations }: KeyStatus): string {
  return [
    ...problems.map((problem) => `! ${problem}`),
    ...(problems.length > 0 ? [''] : []),
    'In use (secrets by fingerprint, the first one issues):',
    ...settings.flatMap(renderSetting),
    ...(settlementKeys.length > 0 ? ['', 'Settlement keys:'] : []),
    ...settlementKeys.map(
      ({ address, gasWei, unfinishedCalls, openTransactions, contracts }) =>
        `  ${address} ${gasWei === null ? 'gas not read' : `${formatEther(gasWei)} ETH`}, ${unfinishedCalls} unfinished calls, ${openTransactions} open transactions${contracts.map(renderListing).join('')}`,
    ),
    ...rotations.flatMap((rotation) => ['', ...renderRotation(rotation)]),
  ].join('\n')
}

function renderListing({ contract, isListed }: KeyStatus['settlementKeys'][number]['contracts'][number]): string {
  if (isListed === null) return `, list of ${contract} not read`
  return isListed ? `, listed in ${contract}` : `, NOT listed in ${contract}`
}

function renderSetting({ setting, processes, values }: KeyStatus['settings'][number]): readonly string[] {
  if (processes === 0) return [`  ${setting.padEnd(30)} no process reports`]
  return values.map(
    ({ keys, count }, index) =>
      `  ${(index === 0 ? setting : '').padEnd(30)} ${count} of ${processes}: ${keys.join(', ') || 'not set'}`,
  )
}

function renderRotation({
  kind,
  newKey,
  oldKey,
  startedAt,
  operator,
  reason,
  steps,
  isFinished,
}: KeyStatus['rotations'][number]): readonly string[] {
  return [
    `Rotation of ${kind}: ${oldKey} is replaced by ${newKey}${isFinished ? ' (finished)' : ''}`,
    `  started by ${operator} at ${startedAt.toISOString()}: ${reason}`,
    ...renderSteps(steps),
  ]
}

/** Renders steps with what was found about those that are done and the next one. */
export function renderSteps(steps: readonly Step[]): readonly string[] {
  const next = steps.findIndex(({ isDone }) => !isDone)
  return steps.flatMap(({ instruction, isDone, detail }, index) => [
    `  ${isDone ? '✓' : index === next ? '→' : '·'} ${index + 1}. ${instruction}`,
    ...(isDone || index === next ? [`       ${detail}`] : []),
  ])
}
