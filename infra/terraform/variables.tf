variable "bucket_name" {
  description = "S3_BUCKET of API and workers."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.bucket_name))
    error_message = "A bucket's name has 3 to 63 lower case letters, digits, dots and hyphens."
  }
}

variable "name" {
  description = "What the names of the policies begin with."
  type        = string
  default     = "farebox"
}

variable "kms_key_arn" {
  description = "A KMS key of your own to encrypt with; Amazon's keys for S3 when left out."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of everything that is made here."
  type        = map(string)
  default     = {}
}
