import { uptoPermit2WitnessTypes } from '@x402/evm'
import fc from 'fast-check'
import { hashTypedData, recoverAddress, serializeSignature } from 'viem'
import { privateKeyToAccount, sign } from 'viem/accounts'
import { describe, expect, it } from 'vitest'
import { PERMIT2_ADDRESS } from '#shared/chain/network/contracts.ts'
import { createPermit2Hash } from '#shared/chain/signing/permit2-message.ts'
import { recoverSigner, signHash } from '#shared/chain/signing/secp256k1.ts'
import { settlementKeys } from '#shared/chain/signing/settlement-keys.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'

/* The reference for every comparison is viem's implementation, based on @noble/curves. */

type Hex = `0x${string}`

const CURVE_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const FIELD_SIZE = 2n ** 256n - 2n ** 32n - 977n
const MAXIMUM = 2n ** 256n - 1n

const bytes = (length: number) =>
  fc.uint8Array({ minLength: length, maxLength: length }).map((value): Hex => `0x${Buffer.from(value).toString('hex')}`)
const uint256 = fc.oneof(fc.bigInt({ min: 0n, max: MAXIMUM }), fc.constantFrom(0n, 1n, MAXIMUM))
const privateKey = fc.bigInt({ min: 1n, max: CURVE_ORDER - 1n }).map((key): Hex => `0x${digits(key)}`)
const runs = { numRuns: 300 }

function digits(value: bigint): string {
  return value.toString(16).padStart(64, '0')
}

async function signerByViem(hash: Hex, signature: Hex): Promise<string | null> {
  try {
    return (await recoverAddress({ hash, signature })).toLowerCase()
  } catch {
    return null
  }
}

/** Expects viem's signer for a canonical signature, and none for any other. */
async function expectSameSigner(hash: Hex, signature: Hex): Promise<string | null> {
  const signer = isCanonical(signature) ? await signerByViem(hash, signature) : null
  expect(recoverSigner(hash, signature)).toBe(signer)
  return signer
}

function isCanonical(signature: Hex): boolean {
  const [s, v] = [signature.slice(66, 130), signature.slice(130)]
  return (v === '1b' || v === '1c') && BigInt(`0x${s}`) <= CURVE_ORDER / 2n
}

describe('recovering a signer', () => {
  it('recovers the signer of a wallet signature and refuses its other spellings: v of 0 or 1, and the mirrored s', async () => {
    await fc.assert(
      fc.asyncProperty(bytes(32), privateKey, async (hash, key) => {
        const { r, s, yParity = Number.NaN } = await sign({ hash, privateKey: key })
        const mirrored: Hex = `0x${digits(CURVE_ORDER - BigInt(s))}`
        const recovered = (spelledS: Hex, v: number) =>
          recoverSigner(hash, `${r}${spelledS.slice(2)}${v.toString(16).padStart(2, '0')}`)
        expect(recovered(s, yParity + 27)).toBe(privateKeyToAccount(key).address.toLowerCase())
        const others = [recovered(s, yParity), recovered(mirrored, 1 - yParity), recovered(mirrored, 28 - yParity)]
        expect(others).toEqual([null, null, null])
      }),
      { numRuns: 60 },
    )
  })

  it('recovers the same signer as viem from arbitrary numbers, at the edges of the curve and with any v', async () => {
    const edges = [0n, 1n, CURVE_ORDER / 2n, CURVE_ORDER / 2n + 1n, CURVE_ORDER - 1n, CURVE_ORDER, CURVE_ORDER + 1n]
    const number = fc.oneof(uint256, fc.constantFrom(...edges, FIELD_SIZE - CURVE_ORDER, FIELD_SIZE - 1n, FIELD_SIZE))
    const v = fc.oneof(fc.constantFrom(0, 1, 27, 28, 27, 28), fc.integer({ min: 0, max: 255 }))
    let [recovered, rejected] = [0, 0]
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(bytes(32), fc.constant<Hex>(`0x${digits(0n)}`)),
        number,
        number,
        v,
        async (...given) => {
          const [hash, r, s, recovery] = given
          const signature: Hex = `0x${digits(r)}${digits(s)}${recovery.toString(16).padStart(2, '0')}`
          if ((await expectSameSigner(hash, signature)) === null) rejected += 1
          else recovered += 1
        },
      ),
      runs,
    )
    expect(recovered).toBeGreaterThan(0)
    expect(rejected).toBeGreaterThan(0)
  })

  it('recovers the same signer as viem from signatures that are changed by a bit, truncated or extended', async () => {
    const change = fc.oneof(
      fc.record({ kind: fc.constant('flip' as const), bit: fc.integer({ min: 0, max: 519 }) }),
      fc.record({ kind: fc.constant('length' as const), length: fc.integer({ min: 0, max: 130 }) }),
    )
    await fc.assert(
      fc.asyncProperty(bytes(32), privateKey, change, async (hash, key, changed) => {
        const signature = Buffer.from(serializeSignature(await sign({ hash, privateKey: key })).slice(2), 'hex')
        const mutant = Buffer.alloc(changed.kind === 'length' ? changed.length : signature.length)
        signature.copy(mutant)
        if (changed.kind === 'flip')
          mutant.writeUInt8(mutant.readUInt8(changed.bit >> 3) ^ (1 << (changed.bit & 7)), changed.bit >> 3)
        await expectSameSigner(hash, `0x${mutant.toString('hex')}`)
      }),
      runs,
    )
  })
})

describe('signing with settlement keys', () => {
  it('signs a hash with the same bytes as viem', async () => {
    await fc.assert(
      fc.asyncProperty(bytes(32), privateKey, async (hash, key) => {
        const { r, s, yParity } = await sign({ hash, privateKey: key })
        expect(signHash(hash, key)).toEqual({ r, s, yParity })
      }),
      { numRuns: 200 },
    )
  })

  it('signs a settlement transaction with the same bytes as viem', async () => {
    const wei = fc.bigInt({ min: 0n, max: 2n ** 100n })
    const nonce = fc.integer({ min: 0, max: 2 ** 40 })
    await fc.assert(
      fc.asyncProperty(privateKey, nonce, wei, wei, bytes(20), bytes(68), async (key, nonce, tip, fee, to, data) => {
        const transaction = {
          type: 'eip1559',
          chainId: 8453,
          nonce,
          gas: 200_000n,
          maxFeePerGas: fee + tip,
          maxPriorityFeePerGas: tip,
          to,
          data,
        } as const
        const keys = settlementKeys([key])
        const [facilitator] = keys.facilitators
        if (!facilitator) throw new Error('no key')
        const account = privateKeyToAccount(key)
        expect(facilitator).toBe(account.address.toLowerCase())
        expect(keys.signTransaction(facilitator, transaction)).toBe(await account.signTransaction(transaction))
      }),
      { numRuns: 100 },
    )
  })

  it('throws for a facilitator without a key', () => {
    const keys = settlementKeys([`0x${digits(1n)}`])
    const transaction = { type: 'eip1559', chainId: 8453 } as const
    expect(() => keys.signTransaction('0x1111111111111111111111111111111111111111', transaction)).toThrow(
      'no settlement key for the facilitator 0x1111111111111111111111111111111111111111',
    )
  })
})

describe('hashing an authorization', () => {
  it('computes the same hash as the SDK’s typed data', () => {
    const signed = fc.record({
      asset: bytes(20),
      payer: bytes(20),
      payTo: bytes(20),
      facilitator: bytes(20),
      spender: bytes(20),
      authorizedMaximum: uint256.map(atomicAmount),
      nonce: uint256,
      deadline: uint256,
      validAfter: uint256,
    })
    fc.assert(
      fc.property(signed, fc.constantFrom(1, 8453, 84532), (values, chainId) => {
        const authorization = { ...values, network: `eip155:${chainId}`, signature: '0x', gasSponsoring: null } as const
        const { asset, authorizedMaximum, spender, nonce, deadline, payTo, facilitator, validAfter } = values
        const expected = hashTypedData({
          domain: { name: 'Permit2', chainId, verifyingContract: PERMIT2_ADDRESS },
          types: uptoPermit2WitnessTypes,
          primaryType: 'PermitWitnessTransferFrom',
          message: {
            permitted: { token: asset, amount: authorizedMaximum },
            spender,
            nonce,
            deadline,
            witness: { to: payTo, facilitator, validAfter },
          },
        })
        expect(createPermit2Hash(chainId)(authorization)).toBe(expected)
      }),
      runs,
    )
  })
})
