import { type Hex, hashDomain, keccak256, stringToHex } from 'viem'
import type { Authorization } from '#shared/payment/authorization.ts'
import { PERMIT2_ADDRESS } from '../network/contracts.ts'

/* The type strings that EIP-712 hashes, as Permit2 and the proxy's witness define them. */
const TOKEN_PERMISSIONS = 'TokenPermissions(address token,uint256 amount)'
const WITNESS = 'Witness(address to,address facilitator,uint256 validAfter)'
const PERMIT = `PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,Witness witness)${TOKEN_PERMISSIONS}${WITNESS}`

const [TOKEN_PERMISSIONS_TYPE, WITNESS_TYPE, PERMIT_TYPE] = [
  keccak256(stringToHex(TOKEN_PERMISSIONS)),
  keccak256(stringToHex(WITNESS)),
  keccak256(stringToHex(PERMIT)),
] as const

/**
 * Creates the function that hashes an authorization into what its payer signs: the EIP-712 hash of Permit2's message.
 * Types and domain are hashed once, the values for each payment.
 */
export function createPermit2Hash(chainId: number): (authorization: Authorization) => Hex {
  const domain = hashDomain({
    domain: { name: 'Permit2', chainId: BigInt(chainId), verifyingContract: PERMIT2_ADDRESS },
    types: {
      EIP712Domain: [
        { name: 'name', type: 'string' },
        { name: 'chainId', type: 'uint256' },
        { name: 'verifyingContract', type: 'address' },
      ],
    },
  })
  return ({ asset, authorizedMaximum, spender, nonce, deadline, payTo, facilitator, validAfter }) => {
    const permitted = hashWords(TOKEN_PERMISSIONS_TYPE, asset, authorizedMaximum)
    const witness = hashWords(WITNESS_TYPE, payTo, facilitator, validAfter)
    const message = hashWords(PERMIT_TYPE, permitted, spender, nonce, deadline, witness)
    return keccak256(Buffer.from(`1901${domain.slice(2)}${message.slice(2)}`, 'hex'))
  }
}

/** Hashes values as EIP-712 encodes them: each in 32 bytes, numbers and addresses padded on the left. */
function hashWords(...values: readonly (Hex | bigint)[]): Hex {
  const words = values.map((value) => (typeof value === 'bigint' ? value.toString(16) : value.slice(2)))
  return keccak256(Buffer.from(words.map((word) => word.padStart(64, '0')).join(''), 'hex'))
}
