import { usdc } from '../../transcribe/amounts.ts'

/** More than all USDC that will ever exist; such allowances are granted without a limit in mind. */
const UNLIMITED = 2n ** 128n

export function isUnlimited(allowance: bigint): boolean {
  return allowance >= UNLIMITED
}

/** Describes what Permit2 may take, and what that means for calls. */
export function allowanceText(allowance: bigint, balance: bigint): string {
  if (isUnlimited(allowance)) return 'without a limit: calls run in parallel'
  if (allowance > 0n && allowance >= balance) return `${usdc(allowance)}: calls run in parallel`
  const amount = allowance === 0n ? 'none' : usdc(allowance)
  return `${amount}: calls sign a permit, or run farebox approve`
}

/** Returns what the approval of Permit2 was. Without a transaction, calls bring the permit to the chain. */
export function approvalText(transaction: string | null): string {
  return transaction === null
    ? "signed once that Permit2 may take this wallet's USDC, at no cost"
    : `approved Permit2 once for this wallet's USDC, paid for by the service (transaction ${transaction})`
}
