-- Version 9: which folder a root was when it was last there, so that it is known again where it lies now.
-- Its volume's number, which is given anew when that is mounted, and its own there.
ALTER TABLE roots ADD COLUMN volume INTEGER;
ALTER TABLE roots ADD COLUMN inode INTEGER;
-- A name of its file system that stays (a disk's UUID, a share's address), and its path from that one's root on.
ALTER TABLE roots ADD COLUMN file_system TEXT;
ALTER TABLE roots ADD COLUMN within BLOB;
