import { allowanceState, askAllowance } from '../allowance/read-allowance.ts'
import { readBalance } from '../allowance/read-balance.ts'
import { formatUsdc } from '../budget/usdc.ts'
import type { FareboxContext } from '../context.ts'
import { openNode, readNode } from '../wallet/node-client.ts'
import { type DoctorCheck, fine, wrong } from './doctor-check.ts'

type WalletContext = Pick<FareboxContext, 'fetch' | 'now' | 'baseUrl' | 'payer' | 'pins' | 'wallet' | 'rpcUrl'>

/** Checks that a node of the payment network answers, if one is configured. */
export async function checkNode({ rpcUrl, pins, baseUrl }: WalletContext): Promise<DoctorCheck> {
  if (rpcUrl === undefined) return fine('rpc', 'none is configured: permits and transfers on chain are left out')
  const { network = '' } = pins.termsOf(new URL(baseUrl).origin)
  const node = await openNode(rpcUrl)
  const block = await readNode(node, network, (client) => client.getBlockNumber())
  return fine('rpc', `${node.host} serves ${network}, block ${block}`)
}

/** Checks that there is USDC to pay with. */
export async function checkBalance(context: WalletContext, signal?: AbortSignal): Promise<DoctorCheck> {
  const { usdc, network } = await readBalance(context, { signal, patienceMs: 0 })
  if (usdc > 0n) return fine('balance', `${formatUsdc(usdc)} USDC`)
  return wrong('balance', `${context.payer} has no USDC on ${network}.`, 'Send USDC to the wallet.')
}

/** Checks that Permit2 may take the charge of a call, lastingly or by a permit with each call. */
export async function checkAllowance(context: WalletContext, signal?: AbortSignal): Promise<DoctorCheck> {
  const name = 'allowance'
  const { isApproved, allowance, sponsoring } = allowanceState(await askAllowance(context, { signal, patienceMs: 0 }))
  if (isApproved) return fine(name, 'Permit2 is approved: calls run in parallel')
  const present = allowance === 0n ? 'none' : `only ${formatUsdc(allowance)} USDC`
  if (sponsoring.code === 'permit_travels_with_payment')
    return fine(name, `${present}: the first call brings a permit for all later ones`)
  const approve = sponsoring.isAvailable
    ? 'the service pays for an approval (approve)'
    : `an approval is not possible now (${sponsoring.message ?? sponsoring.code ?? 'no reason is known'})`
  return fine(name, `${present}: calls are paid one after the other, each with a permit; ${approve}`)
}

/** Checks that the payer is no contract, whose code might refuse the charge after the work is done. */
export async function checkCode(context: WalletContext, signal?: AbortSignal): Promise<DoctorCheck> {
  const { rpcUrl, pins, wallet, baseUrl, payer } = context
  const { network = '' } = pins.termsOf(new URL(baseUrl).origin)
  const hasCode =
    rpcUrl === undefined
      ? (await askAllowance(context, { signal, patienceMs: 0 })).sponsoring.reason === 'owner_has_code'
      : (await readNode(await openNode(rpcUrl), network, (client) => client.getCode({ address: wallet.address }))) !==
        undefined
  if (!hasCode) return fine('wallet', `${payer}, an account without code`)
  return wrong(
    'wallet',
    `The account ${payer} has code (a smart account or an EIP-7702 delegation), which the service may refuse.`,
    'Pay from an account without code.',
  )
}
