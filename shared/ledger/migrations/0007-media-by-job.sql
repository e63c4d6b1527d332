-- Asked for while the key and its payer are locked: whether a withheld result still has its media.
CREATE INDEX media_by_job ON media (job_id);
