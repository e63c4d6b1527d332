type Hex = `0x${string}`

/**
 * Returns the settlement key that submits an owner's permits: the same one in every process that has the same keys, and
 * all of them equally often over many owners.
 */
export function facilitatorOf(owner: Hex, facilitators: readonly Hex[]): Hex {
  const ordered = facilitators.map((address) => address.toLowerCase() as Hex).sort()
  const chosen = ordered[Number(BigInt(owner) % BigInt(Math.max(1, ordered.length)))]
  if (chosen === undefined) throw new Error('no settlement key is configured')
  return chosen
}
