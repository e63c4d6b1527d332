import { BaseError } from 'viem'
import { createChainClient } from '#shared/chain/network/client.ts'
import { CHAIN_ID } from '#shared/chain/network/contracts.ts'
import { printField } from '../../terminal.ts'
import { createMain, Refusal } from '../command-line.ts'
import { addOptions, type ContractOptions, readOptions } from './options.ts'
import { planChange } from './plan-change.ts'
import { planDeployment } from './plan-deployment.ts'
import type { ReportLine } from './plan.ts'
import { priceTransaction } from './send-transaction.ts'

const RPC_TIMEOUT_MS = 30_000

/** Runs the command and returns its exit code. */
export const main = createMain('deploy:settlement-contract', (command, run) =>
  addOptions(command).action(
    run(async (flags, settings) => {
      try {
        await deploy(readOptions(flags, settings))
      } catch (error) {
        // The whole message of viem contains the node's URL, which often contains a key.
        throw error instanceof BaseError ? new Error(error.shortMessage) : error
      }
    }),
  ),
)

async function deploy({ request, rpcUrl, isDryRun, senderKey }: ContractOptions): Promise<void> {
  const client = createChainClient(rpcUrl, RPC_TIMEOUT_MS)
  const chainId = await client.getChainId()
  if (chainId !== CHAIN_ID)
    throw new Refusal(`The node serves chain ${chainId} instead of ${CHAIN_ID} (Base), for which payments are signed`)
  print([['chain', `${CHAIN_ID}, through ${new URL(rpcUrl).host}`]])
  const plan = await (request.action === 'deploy' ? planDeployment(client, request) : planChange(client, request))
  print(plan.report)
  if (plan.transaction === null) {
    print([['nothing', 'to send: it was done before']])
    print(await plan.confirm())
    return
  }
  const priced = await priceTransaction(client, plan.transaction, senderKey)
  print(priced.report)
  if (isDryRun || senderKey === null) {
    print([
      ['dry run', 'nothing was sent'],
      ['data', plan.transaction.data],
    ])
    return
  }
  print([await priced.send(senderKey)])
  print(await plan.confirm())
}

function print(lines: readonly ReportLine[]): void {
  for (const [label, ...texts] of lines) printField(label, ...texts)
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2), process.env)
