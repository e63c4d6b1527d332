import { z } from 'zod'
import { categories } from '#shared/catalog/categories.ts'

export const categoryIdSchema = z.enum(categories.map(({ id }) => id))
