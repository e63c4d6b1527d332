import type { GasSpent } from '#shared/payment/facilitator.ts'
import type { Parameter } from '../move-job.ts'

/** Returns the assignments that store what a settlement's mined transactions cost one of our own keys. */
export function setGas(gas: GasSpent | null, parameter: Parameter): string {
  const columns = { gas_used: gas?.gasUsed, effective_gas_price: gas?.effectiveGasPrice, gas_cost: gas?.cost }
  return Object.entries(columns)
    .map(([column, value]) => {
      const own = `CASE WHEN settled_by = 'own_key' THEN ${parameter(value?.toString() ?? null)}::numeric END`
      return `${column} = ${own}`
    })
    .join(', ')
}
