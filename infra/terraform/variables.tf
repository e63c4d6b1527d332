variable "bucket_name" {
  description = "S3_BUCKET of API and workers."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.bucket_name))
    error_message = "A bucket name has 3 to 63 lowercase letters, digits, dots and hyphens."
  }
}

variable "name" {
  description = "Prefix of the policies' names."
  type        = string
  default     = "farebox"
}

variable "kms_key_arn" {
  description = "ARN of a KMS key to encrypt with. Default: keys managed by Amazon S3."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of every resource in this module."
  type        = map(string)
  default     = {}
}
