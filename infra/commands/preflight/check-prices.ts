import { readFile } from 'node:fs/promises'
import { compareWithCost, describeBelowCost } from '#shared/catalog/vendor-cost.ts'
import { catalogsOf } from '#shared/operators/catalogs-of-configuration.ts'
import { readCatalogContent, readDeploymentsContent } from '#shared/operators/validate-configuration.ts'
import type { ApiConfig } from '../../../api/config.ts'
import { type Check, failed, judged, skipped } from './check.ts'

const NAME = 'prices'

/** Compares the prices of the files with what their deployments cost, before the gas of a charge. */
export async function checkPrices({ CATALOG_FILE, DEPLOYMENTS_FILE }: ApiConfig): Promise<Check> {
  try {
    const overrides =
      CATALOG_FILE === undefined ? { models: {} } : readCatalogContent(await readFile(CATALOG_FILE, 'utf8'))
    const { file } = readDeploymentsContent(await readFile(DEPLOYMENTS_FILE, 'utf8'))
    const { published } = catalogsOf({ overrides, file }, 'refuse')
    const { belowCost, withoutPrices } = compareWithCost(published, file)
    if (belowCost.length === 0 && withoutPrices.length > 0)
      return skipped(
        NAME,
        `not known of ${withoutPrices.join(', ')}: enter their vendor's "prices" in DEPLOYMENTS_FILE`,
      )
    const advice = 'raise the price in CATALOG_FILE, disable the model, or serve it by a cheaper deployment'
    return judged(
      NAME,
      belowCost.map((each) => `${describeBelowCost(each)}; ${advice}`),
      'no model is sold below what its deployments cost',
    )
  } catch (error) {
    return failed(NAME, error instanceof Error ? error.message : String(error))
  }
}
