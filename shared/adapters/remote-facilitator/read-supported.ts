import { createHttpClient, type RemoteFacilitatorOptions } from './http-client.ts'

const SUPPORTED_TIMEOUT_MS = 5000
const ADDRESS = /^0x[0-9a-f]{40}$/

/**
 * Reads the addresses that may settle for a remote facilitator from its `/supported`, in lower case and sorted. Its
 * `extra` names a random one at each call, so all of its signers are included: every API process must choose from the
 * same list and recognize the one that another process chose.
 *
 * Throws an error that names FACILITATOR_URL when it cannot be reached or does not support `upto` on `network`.
 */
export async function readSupportedFacilitators(
  options: RemoteFacilitatorOptions,
  network: string,
): Promise<readonly `0x${string}`[]> {
  const { kinds, signers } = await readSupported(options)
  const kind = kinds.find(
    (offered) => offered.x402Version === 2 && offered.scheme === 'upto' && offered.network === network,
  )
  if (!kind) throw new Error(`the facilitator of FACILITATOR_URL does not support scheme "upto" on ${network}`)
  const candidates = [kind.extra?.['facilitatorAddress'], ...(signers[network] ?? []), ...(signers['eip155:*'] ?? [])]
  const addresses = candidates.flatMap((address) => (typeof address === 'string' ? [address.toLowerCase()] : []))
  const facilitators = [...new Set(addresses)].filter((address) => ADDRESS.test(address)).sort()
  if (facilitators.length === 0)
    throw new Error(`the facilitator of FACILITATOR_URL names no facilitatorAddress for scheme "upto" on ${network}`)
  return facilitators as `0x${string}`[]
}

async function readSupported(options: RemoteFacilitatorOptions) {
  try {
    return await createHttpClient(options, SUPPORTED_TIMEOUT_MS).getSupported()
  } catch (cause) {
    throw new Error('the facilitator of FACILITATOR_URL does not answer GET /supported', { cause })
  }
}
