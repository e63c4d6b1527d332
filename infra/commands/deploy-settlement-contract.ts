import { BaseError } from 'viem'
import { createChainClient } from '#shared/chain/network/client.ts'
import { CHAIN_ID } from '#shared/chain/network/contracts.ts'
import { namingWaits, Refusal, UsageError } from '../command-line.ts'
import type { ReportLine } from '../deploy-contract/plan.ts'
import { planChange } from '../deploy-contract/plan-change.ts'
import { planDeployment } from '../deploy-contract/plan-deployment.ts'
import { type ContractOptions, HELP, readOptions } from '../deploy-contract/read-options.ts'
import { priceTransaction } from '../deploy-contract/send-transaction.ts'
import { printField, printProblem } from '../terminal.ts'

const [DONE, REFUSED, FAILED] = [0, 1, 2]
const RPC_TIMEOUT_MS = 30_000

/** Runs the command and returns its exit code. */
export async function main(commandLine: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  try {
    const options = readOptions(commandLine, environment)
    if (options === null) console.log(HELP)
    else await run(options)
    return DONE
  } catch (error) {
    if (error instanceof UsageError) printProblem(`${error.message}\n\n${HELP}`)
    // The whole message of viem contains the node's URL, which often contains a key.
    else
      printProblem(error instanceof BaseError ? error.shortMessage : error instanceof Error ? error.message : 'failed')
    return error instanceof Refusal ? REFUSED : FAILED
  }
}

async function run({ request, rpcUrl, isDryRun, senderKey }: ContractOptions): Promise<void> {
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

if (import.meta.main) process.exitCode = await namingWaits(() => main(process.argv.slice(2), process.env))
