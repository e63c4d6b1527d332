import type { Catalog } from '#shared/catalog/catalog.ts'
import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import { type PastCall, type PricedAgain, priceAgain } from './price-again.ts'

/** The same calls three times: older ones were charged by the catalog of their day. */
export interface Amounts {
  readonly past: AtomicAmount
  readonly inForce: AtomicAmount
  readonly draft: AtomicAmount
}

/** Sums of the calls that both catalogs price. */
export interface Comparison {
  readonly calls: number
  /** Calls that the draft refuses. */
  readonly refused: number
  readonly charged: Amounts
  readonly quoted: Amounts
}

export interface ComparedCall {
  readonly call: PastCall
  readonly inForce: PricedAgain
  readonly draft: PricedAgain
  /** How far the draft moves the charge, or without one the maximum, from what is in force; of a refused call all of it. */
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

/** What callers are offered. */
interface Offers {
  readonly inForce: Catalog
  readonly draft: Catalog
}

/** Recomputes the charges and maxima of past calls, newest first, under what is in force and under a draft. */
export function whatIf(calls: readonly PastCall[], offers: Offers): WhatIf {
  const compared = calls.map((call) => compare(call, offers))
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

function compare(call: PastCall, offers: Offers): ComparedCall {
  const [inForce, draft] = [priceAgain(call, offers.inForce), priceAgain(call, offers.draft)]
  const hasCharge = call.charge !== null && chargeOf(draft) !== chargeOf(inForce)
  const amountOf = hasCharge ? chargeOf : maximumOf
  return { call, inForce, draft, difference: differenceOf(amountOf(inForce), amountOf(draft)) }
}

/** Returns 0 for an amount that is not known: there is nothing to compare with. A refused call has an amount of 0. */
function differenceOf(inForce: bigint | null, draft: bigint | null): bigint {
  return inForce === null || draft === null ? 0n : draft - inForce
}

function chargeOf(priced: PricedAgain): bigint | null {
  return priced.outcome === 'refused' ? 0n : priced.charge
}

function maximumOf(priced: PricedAgain): bigint | null {
  return priced.outcome === 'refused' ? 0n : priced.quotedMaximum
}

function compareSizes(left: bigint, right: bigint): number {
  const [leftSize, rightSize] = [left < 0n ? -left : left, right < 0n ? -right : right]
  return leftSize < rightSize ? -1 : Number(leftSize > rightSize)
}

function sumUp(compared: readonly ComparedCall[]): Comparison {
  const priced = compared.flatMap(({ call, inForce, draft }) =>
    inForce.outcome === 'priced' && draft.outcome === 'priced' ? [{ call, inForce, draft }] : [],
  )
  const charged = priced.map(({ call, inForce, draft }) => [call.charge, inForce.charge, draft.charge])
  const quoted = priced.map(({ call, inForce, draft }) => [
    call.quotedMaximum,
    inForce.quotedMaximum,
    draft.quotedMaximum,
  ])
  return {
    calls: compared.length,
    refused: compared.filter(({ draft }) => draft.outcome === 'refused').length,
    charged: amountsOf(charged),
    quoted: amountsOf(quoted),
  }
}

/** Adds up the past amounts, those in force and under the draft of the calls of which all three are known. */
function amountsOf(rows: readonly (readonly (AtomicAmount | null)[])[]): Amounts {
  const known = rows.filter((row) => !row.includes(null))
  const total = (column: number) => atomicAmount(known.reduce<bigint>((sum, row) => sum + (row[column] ?? 0n), 0n))
  return { past: total(0), inForce: total(1), draft: total(2) }
}
