import type { FareboxContext } from '../context.ts'
import {
  checkAllowance,
  checkBalance,
  checkBudget,
  checkCode,
  checkJournal,
  checkNode,
  checkOpenCalls,
} from './check-machine.ts'
import { checkClock, checkService, checkTerms } from './check-service.ts'
import { type DoctorCheck, type DoctorOptions, examine } from './doctor-check.ts'

/**
 * Checks everything that a payment needs, without paying or signing. Each check says by itself what is wrong; when the
 * service cannot be reached, those that ask it say so, too.
 */
export async function examineAll(
  context: FareboxContext,
  { also = [], signal }: DoctorOptions = {},
): Promise<readonly DoctorCheck[]> {
  return await Promise.all([
    examine('service', () => checkService(context, signal)),
    examine('terms', () => checkTerms(context, signal)),
    examine('clock', () => checkClock(context, signal)),
    examine('rpc', () => checkNode(context)),
    examine('wallet', () => checkCode(context, signal)),
    examine('balance', () => checkBalance(context, signal)),
    examine('allowance', () => checkAllowance(context, signal)),
    examine('budget', () => checkBudget(context)),
    examine('open calls', () => checkOpenCalls(context)),
    examine('journal', () => checkJournal(context)),
    ...also.map((check) => examine('check', check)),
  ])
}
