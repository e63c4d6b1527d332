output "bucket_name" {
  description = "S3_BUCKET of API and workers."
  value       = aws_s3_bucket.media.bucket
}

output "bucket_region" {
  description = "S3_REGION of API and workers."
  value       = aws_s3_bucket.media.region
}

output "api_policy_arn" {
  description = "Policy to attach to the role or user of the API."
  value       = aws_iam_policy.api.arn
}

output "worker_policy_arn" {
  description = "Policy to attach to the role or user of workers and settlers."
  value       = aws_iam_policy.worker.arn
}

output "archive_policy_arn" {
  description = "Policy to attach to the role or user that runs npm run archive."
  value       = aws_iam_policy.archive.arn
}
