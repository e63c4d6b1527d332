import type { Catalog } from '#shared/catalog/catalog.ts'
import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import { type PastCall, type PricedAgain, priceAgain } from './price-again.ts'

/** Sums of the calls that are priced both ways. */
export interface Comparison {
  readonly calls: number
  /** Calls that the draft refuses. */
  readonly refused: number
  readonly charged: { readonly actual: AtomicAmount; readonly draft: AtomicAmount }
  readonly quoted: { readonly actual: AtomicAmount; readonly draft: AtomicAmount }
}

export interface ComparedCall {
  readonly call: PastCall
  readonly draft: PricedAgain
  /** How far the charge, or without one the maximum, is from what it was; of a refused call all of it. */
  readonly difference: bigint
}

/** What a draft would have changed about past calls. */
export interface WhatIf {
  readonly since: Date | null
  readonly total: Comparison
  readonly byModel: readonly (Comparison & { readonly model: string })[]
  /** Those that change most, the largest difference first. */
  readonly examples: readonly ComparedCall[]
}

const EXAMPLES = 10

/** Recomputes the charges and maxima of past calls, newest first, under the catalog that a draft offers. */
export function whatIf(calls: readonly PastCall[], draft: Catalog): WhatIf {
  const compared = calls.map((call) => compare(call, draft))
  const models = [...new Set(calls.map(({ model }) => model))].toSorted()
  return {
    since: calls.at(-1)?.acceptedAt ?? null,
    total: sumUp(compared),
    byModel: models.map((model) => ({ model, ...sumUp(compared.filter(({ call }) => call.model === model)) })),
    examples: compared
      .filter(({ difference }) => difference !== 0n)
      .toSorted((left, right) => compareSizes(right.difference, left.difference))
      .slice(0, EXAMPLES),
  }
}

function compare(call: PastCall, catalog: Catalog): ComparedCall {
  const draft = priceAgain(call, catalog)
  return { call, draft, difference: differenceOf(call, draft) }
}

function differenceOf({ charge, quotedMaximum }: PastCall, draft: PricedAgain): bigint {
  if (draft.outcome === 'refused') return 0n - (charge ?? quotedMaximum)
  if (charge !== null && draft.charge !== null && draft.charge !== charge) return draft.charge - charge
  return draft.quotedMaximum === null ? 0n : draft.quotedMaximum - quotedMaximum
}

function compareSizes(left: bigint, right: bigint): number {
  const [leftSize, rightSize] = [left < 0n ? -left : left, right < 0n ? -right : right]
  return leftSize < rightSize ? -1 : Number(leftSize > rightSize)
}

function sumUp(compared: readonly ComparedCall[]): Comparison {
  const priced = compared.flatMap(({ call, draft }) => (draft.outcome === 'priced' ? [{ call, draft }] : []))
  const charged = priced.filter(({ call, draft }) => call.charge !== null && draft.charge !== null)
  const quoted = priced.filter(({ draft }) => draft.quotedMaximum !== null)
  return {
    calls: compared.length,
    refused: compared.length - priced.length,
    charged: {
      actual: total(charged.map(({ call }) => call.charge)),
      draft: total(charged.map(({ draft }) => draft.charge)),
    },
    quoted: {
      actual: total(quoted.map(({ call }) => call.quotedMaximum)),
      draft: total(quoted.map(({ draft }) => draft.quotedMaximum)),
    },
  }
}

function total(amounts: readonly (AtomicAmount | null)[]): AtomicAmount {
  return atomicAmount(amounts.reduce<bigint>((sum, amount) => sum + (amount ?? 0n), 0n))
}
