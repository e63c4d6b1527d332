-- The ledger command walks the chain range by range and asks each time which settlements belong there.
CREATE INDEX settlements_by_block ON settlements (block_number) WHERE state = 'confirmed';
