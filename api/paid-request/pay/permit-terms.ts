import { type PaymentTerms, SIGNING_TERMS } from '#shared/payment/payment-terms.ts'

type PermitTerms = Pick<PaymentTerms, 'network' | 'asset' | 'permit2'>

/** The largest allowance, which no call uses up. */
const SUGGESTED_VALUE = (1n << 256n) - 1n
/** How long a suggested permit is valid. */
const SUGGESTED_SECONDS = 3600n

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
function permitTypedData(
  terms: PermitTerms,
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

/** An owner, their next permit nonce, and the time by the clock that is ahead. */
interface PermitCircumstances {
  readonly owner: string
  readonly nonce: bigint
  readonly nowSeconds: bigint
}

/** Returns the permit that ends the need for others. */
export function lastingPermit(terms: PermitTerms, { owner, nonce, nowSeconds }: PermitCircumstances) {
  const deadline = nowSeconds + SUGGESTED_SECONDS
  return permitTypedData(terms, { owner, value: SUGGESTED_VALUE, nonce, deadline })
}

/**
 * Returns the member `permit` of a 412: what its payer signs to go on, without a node of the chain, and where it is
 * stored. A service without a settlement contract takes only a permit of the payment's own maximum, sent with the payment.
 */
export function requiredPermit(
  terms: PermitTerms & Pick<PaymentTerms, 'settlementContract'>,
  { maximum, publicBaseUrl, ...circumstances }: PermitCircumstances & { maximum: bigint; publicBaseUrl: string },
) {
  const { owner, nonce, nowSeconds } = circumstances
  if (terms.settlementContract !== null) {
    const url = new URL('/v1/allowances', publicBaseUrl).href
    return { submit: { method: 'POST' as const, url }, typed_data: lastingPermit(terms, circumstances) }
  }
  const deadline = nowSeconds + SUGGESTED_SECONDS
  return { submit: null, typed_data: permitTypedData(terms, { owner, value: maximum, nonce, deadline }) }
}

/** Returns the message of a 412 that carries `permit`. */
export function requiredPermitMessage({ settlementContract }: Pick<PaymentTerms, 'settlementContract'>): string {
  const without = 'Permit2 may take too little of the payer’s USDC. Sign permit.typed_data (EIP-712, no gas)'
  const withPayment = 'with a freshly signed payment as its extension eip2612GasSponsoring'
  if (settlementContract === null) return `${without} and send it ${withPayment}.`
  return `${without}, store it with POST /v1/allowances {"permit": {...permit.typed_data.message, "signature"}}, and repeat the request with a freshly signed payment. Or send it ${withPayment}. It lasts: later payments need none.`
}

/** The selector of `approve(address,uint256)`. Source: EIP-20. */
const APPROVE_SELECTOR = '0x095ea7b3'
const WORD_DIGITS = 64

/** Returns the transaction with which a wallet that cannot sign a permit approves Permit2, for every later payment. */
export function approvalCall({ asset, permit2 }: Pick<PaymentTerms, 'asset' | 'permit2'>) {
  const words = [permit2.slice(2).toLowerCase(), SUGGESTED_VALUE.toString(16)]
  return { to: asset, data: [APPROVE_SELECTOR, ...words.map((word) => word.padStart(WORD_DIGITS, '0'))].join('') }
}

/** Returns the sentence that says to send it. */
export function approvalMessage(terms: Pick<PaymentTerms, 'asset' | 'permit2'>): string {
  const { to, data } = approvalCall(terms)
  return `A contract wallet approves Permit2 in a transaction of its own: to ${to} (USDC), data ${data}. It lasts: send it once.`
}

/** Returns a sentence that names everything a permit must have been signed for. */
export function expectedPermit(terms: PermitTerms, nonce: bigint): string {
  const { name, version, chainId, verifyingContract } = permitDomain(terms)
  return `Sign EIP-712 Permit for domain name "${name}", version "${version}", chainId ${chainId}, verifyingContract ${verifyingContract}, with spender ${terms.permit2} (Permit2) and nonce ${nonce}; GET /v1/allowances?owner=… returns it ready to sign.`
}
