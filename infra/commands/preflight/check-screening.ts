import { chainClientOf } from '#shared/chain/network/client.ts'
import { openRpcNodes } from '#shared/chain/network/rpc-nodes.ts'
import { findOracleProblem } from '#shared/chain/reading/screening-oracle.ts'
import { readScreeningFile } from '../../../api/composition/payer-screen.ts'
import type { ApiConfig } from '../../../api/config.ts'
import { attempted } from './attempted.ts'
import { type Check, failed, passed } from './check.ts'

const NAME = 'payer screening'

/** Checks the lists of those who may not pay, as far as they are set. */
export async function checkScreening({
  PAYER_SCREENING_FILE: path,
  PAYER_SCREENING_ORACLE: oracle,
  ...config
}: ApiConfig): Promise<readonly Check[]> {
  const checks: Promise<Check>[] = []
  if (path !== undefined)
    checks.push(
      attempted(NAME, 'PAYER_SCREENING_FILE', async () => {
        const { size } = await readScreeningFile(path)
        if (size === 0) return failed(NAME, `PAYER_SCREENING_FILE: ${path} names no address`)
        return passed(NAME, `${path} refuses ${size} ${size === 1 ? 'address' : 'addresses'}`)
      }),
    )
  if (oracle !== undefined)
    checks.push(
      attempted(NAME, 'PAYER_SCREENING_ORACLE', async () => {
        const client = chainClientOf(openRpcNodes(config.RPC_URL, config.RPC_TIMEOUT_MS))
        const problem = await findOracleProblem(client, oracle)
        return problem === null
          ? passed(NAME, `the list at ${oracle} answers`)
          : failed(NAME, `PAYER_SCREENING_ORACLE: ${problem}`)
      }),
    )
  return await Promise.all(checks)
}
