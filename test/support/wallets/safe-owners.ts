import {
  concat,
  type Hex,
  hashStruct,
  hashTypedData,
  keccak256,
  numberToHex,
  pad,
  size,
  type TypedDataDefinition,
} from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { DEVNET_CHAIN_ID } from '../../../infra/sandbox/chain/devnet.ts'

/** What the owners of a Safe sign. */
export interface SafeDigest {
  readonly hash: Hex
  /** What the Safe gives to an owner that is a contract, which differs between versions. */
  readonly forContracts: Hex
}

/** An owner of a Safe: a key, or a contract that is asked about its signature. */
export interface SafeOwner {
  readonly address: Hex
  readonly isContract: boolean
  sign(digest: SafeDigest): Promise<Hex>
}

export function keyOwner(account: PrivateKeyAccount): SafeOwner {
  return { address: account.address, isContract: false, sign: ({ hash }) => account.sign({ hash }) }
}

type SafeText = Pick<TypedDataDefinition, 'types' | 'primaryType' | 'message'>

/** Returns the hash of a message or a transaction of a Safe, and the text of which it is the hash. */
export function safeHash(safe: Hex, typed: SafeText): { readonly hash: Hex; readonly preimage: Hex } {
  const domain = { chainId: DEVNET_CHAIN_ID, verifyingContract: safe }
  const domainType = [
    { name: 'chainId', type: 'uint256' },
    { name: 'verifyingContract', type: 'address' },
  ]
  const types = { ...typed.types, EIP712Domain: domainType }
  const preimage = concat([
    '0x1901',
    hashStruct({ data: domain, primaryType: 'EIP712Domain', types }),
    hashStruct({ data: typed.message as never, primaryType: typed.primaryType, types } as never),
  ])
  const hash = hashTypedData({ ...typed, domain })
  if (keccak256(preimage) !== hash) throw new Error('the text is not that of the hash')
  return { hash, preimage }
}

/** Returns the signatures of owners as a Safe reads them: ordered by address, those of contracts behind the others. */
export async function signaturesOf(owners: readonly SafeOwner[], digest: SafeDigest): Promise<Hex> {
  const ordered = owners.toSorted((one, other) => (BigInt(one.address) < BigInt(other.address) ? -1 : 1))
  const heads: Hex[] = []
  const tails: Hex[] = []
  for (const owner of ordered) {
    const signature = await owner.sign(digest)
    if (owner.isContract) {
      const offset = ordered.length * 65 + tails.reduce((sum, tail) => sum + size(tail), 0)
      heads.push(concat([pad(owner.address), numberToHex(offset, { size: 32 }), '0x00']))
      tails.push(concat([numberToHex(size(signature), { size: 32 }), signature]))
    } else {
      heads.push(signature)
    }
  }
  return concat([...heads, ...tails])
}
