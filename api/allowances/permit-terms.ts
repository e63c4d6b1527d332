import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import { SIGNING_TERMS } from '#shared/payment/payment-terms.ts'

const field = (name: string, type: string) => ({ name, type })

/** The types of EIP-712 and EIP-2612. The domain's type is listed, as wallets ask for it; viem and others ignore it. */
const PERMIT_TYPES = {
  EIP712Domain: [
    field('name', 'string'),
    field('version', 'string'),
    field('chainId', 'uint256'),
    field('verifyingContract', 'address'),
  ],
  Permit: [
    field('owner', 'address'),
    field('spender', 'address'),
    field('value', 'uint256'),
    field('nonce', 'uint256'),
    field('deadline', 'uint256'),
  ],
}

/** Returns the domain that permits of the asset are signed for. */
function permitDomain({ network, asset }: Pick<PaymentTerms, 'network' | 'asset'>) {
  const { name, version } = SIGNING_TERMS
  return { name, version, chainId: Number(network.split(':')[1]), verifyingContract: asset }
}

/** Returns what an owner signs, in the form of `eth_signTypedData_v4`. */
export function permitTypedData(
  terms: Pick<PaymentTerms, 'network' | 'asset' | 'permit2'>,
  {
    owner,
    ...numbers
  }: { readonly owner: string; readonly value: bigint; readonly nonce: bigint; readonly deadline: bigint },
) {
  const message = {
    owner,
    spender: terms.permit2,
    value: numbers.value.toString(),
    nonce: numbers.nonce.toString(),
    deadline: numbers.deadline.toString(),
  }
  return { domain: permitDomain(terms), types: PERMIT_TYPES, primaryType: 'Permit' as const, message }
}

/** Returns a sentence that names everything a permit must have been signed for. */
export function expectedPermit(terms: Pick<PaymentTerms, 'network' | 'asset' | 'permit2'>, nonce: bigint): string {
  const { name, version, chainId, verifyingContract } = permitDomain(terms)
  return `Sign EIP-712 Permit for domain name "${name}", version "${version}", chainId ${chainId}, verifyingContract ${verifyingContract}, with spender ${terms.permit2} (Permit2) and nonce ${nonce}; GET /v1/allowances?owner=… returns it ready to sign.`
}
